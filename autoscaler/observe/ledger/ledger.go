package ledger

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/gangs"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// Input has all objects that quotas are built from.
type Input struct {
	Quotas         []v1alpha1.GPUQuota
	ResourceQuotas []corev1.ResourceQuota
	Namespaces     []corev1.Namespace
	Objects        foreign.Objects
	// Models of the cluster's GPUs, by gpuscale's names, and the MIG tables that nodes publish: the
	// meaning of a profile's name depends on the product.
	Models []string
	Tables mig.Tables
	// Shares of a GPU, where GPUs are given in shares; 0 for none.
	Shares int
}

// Ledger is the tree of quotas, and which pods count towards which.
type Ledger struct {
	// Tenants form a valid tree.
	Tenants []plan.Tenant
	// Problems of quotas, by kind and name ("GPUQuota team-a"). The readable part of such a quota
	// holds; the problem names the part that does not.
	Problems map[string]error

	entries []entry // as they are defined; Tenants without what is invalid
	units   units
	covers  map[string][]cover          // by namespace
	quotas  map[string][]*resourceQuota // by namespace
	usages  map[*corev1.PodSpec]corev1.ResourceList
	names   map[string]bool // of Tenants
	objects foreign.Objects
}

// New builds the ledger.
func New(in Input) *Ledger {
	l := &Ledger{
		Problems: map[string]error{}, units: newUnits(in.Models, in.Tables, in.Shares), covers: map[string][]cover{}, quotas: map[string][]*resourceQuota{},
		usages: map[*corev1.PodSpec]corev1.ResourceList{}, names: map[string]bool{}, objects: in.Objects,
	}
	l.addQuotas(in.Quotas, in.Namespaces)
	l.addQueues()
	l.addResourceQuotas(in.ResourceQuotas)
	l.build()
	return l
}

// Tenant returns the quota that a pod counts towards, empty for none: a GPUQuota first, then the queue of the pod, then a
// ResourceQuota of its namespace. For a pod that KAI does not start it is a tenant without capacity. model returns that
// of the GPUs that it requests or has, empty for any.
func (l *Ledger) Tenant(p *gangs.Pod, model func() string) string {
	if name := cmp.Or(l.heldBack(p), l.ofQuota(p, model)); name != "" {
		return name
	}
	for _, name := range []string{l.ofKueue(p), l.ofVolcano(p), l.ofKAI(p)} {
		if name != "" && l.names[name] {
			return name
		}
	}
	return l.ofNamespace(p)
}

func (l *Ledger) problem(of string, format string, args ...any) {
	if l.Problems[of] == nil { // only the first is reported
		l.Problems[of] = fmt.Errorf(format, args...)
	}
}

// Slices of a GPU: the unit of quotas for every model.
const (
	computeSlices = 7
	memorySlices  = 8
)

// wholeGPU is one GPU in thousandths of slices.
var wholeGPU = quota.Amount{Compute: 1000 * computeSlices, Memory: 1000 * memorySlices}

// Unlimited is a number of GPU equivalents that stands for no bound.
const Unlimited = math.MaxInt32

// text formats a number of GPU equivalents, "∞" without a bound.
func text(v float64) string {
	if v >= Unlimited {
		return "∞"
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
}

// entry is a tenant and the object that defines it ("GPUQuota team-a").
type entry struct {
	plan.Tenant
	of string
	// whole: its guarantee includes those of its children.
	whole bool
	// weighs: if it and its children have no guarantee, its limit is its guarantee: the scheduler divides by weights
	// alone.
	weighs bool
}

// unbounded is a tenant without a guarantee and without bounds.
func unbounded(name string) quota.Tenant {
	return quota.Tenant{Name: name, Limit: quota.All(), Borrow: quota.All(), Lend: quota.All()}
}

// add adds a tenant that an object defines.
func (l *Ledger) add(of string, t quota.Tenant, whole bool) {
	l.entries = append(l.entries, entry{Tenant: plan.Tenant{Tenant: t}, of: of, whole: whole})
}

// build makes a valid tree of the tenants. Of several with one name the first holds. Whatever is invalid is left out,
// and recorded as a problem of the object that defines it.
func (l *Ledger) build() {
	slices.SortStableFunc(l.entries, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	l.entries = slices.CompactFunc(l.entries, func(a, b entry) bool { return a.Name == b.Name })
	parents := map[string]string{}
	for _, e := range l.entries {
		parents[e.Name] = e.Parent
	}
	for i := range l.entries {
		e := &l.entries[i]
		if _, ok := parents[e.Parent]; !ok && e.Parent != "" {
			l.problem(e.of, "spec.parent: there is no quota %q: this one has no parent, and neither lends nor borrows; create it or correct the name", e.Parent)
			e.Parent = ""
		} else if path := circle(e.Name, parents); path != nil {
			l.problem(e.of, "spec.parent: a cycle, %s: these quotas count as without a parent; remove the parent of one of them", strings.Join(path, " → "))
			e.Parent = ""
		}
	}
	children := map[string]quota.Amount{} // what is guaranteed to them, by parent
	for _, e := range l.entries {
		children[e.Parent] = children[e.Parent].Add(e.Guarantee)
	}
	plain := make([]quota.Tenant, len(l.entries))
	for i := range l.entries {
		e := &l.entries[i]
		if e.weighs && e.Parent == "" && e.Guarantee.Add(children[e.Name]).Zero() {
			e.Guarantee = e.Limit
		}
		if e.whole {
			e.Guarantee = e.Guarantee.Sub(children[e.Name]).Floor()
		}
		plain[i] = e.Tenant.Tenant
	}
	tree, _ := quota.NewTree(plain) // only limits may be wrong
	for _, e := range l.entries {
		if guaranteed := tree.Guaranteed(e.Name); !guaranteed.Fits(e.Limit) {
			if !e.whole {
				l.problem(e.of, "limit: %s is below the guarantees of the quota and its children, %s, which applies as the limit; raise the limit or lower a guarantee",
					text(equivalents(e.Limit)), text(equivalents(guaranteed)))
			}
			e.Limit = e.Limit.Max(guaranteed)
		}
		l.Tenants, l.names[e.Name] = append(l.Tenants, e.Tenant), true
	}
}

// circle returns the names on the way from a tenant up to itself, nil if the way ends at a root or in a circle without
// it.
func circle(name string, parents map[string]string) []string {
	path := []string{name}
	for at := parents[name]; at != "" && len(path) <= len(parents); at = parents[at] {
		if path = append(path, at); at == name {
			return path
		}
	}
	return nil
}

// units converts resources into slices of a GPU.
type units struct {
	scale  *plan.Scale
	shares int // of a GPU, where GPUs are given in shares
}

// newUnits takes the models of the cluster's GPUs, by name.
func newUnits(names []string, tables mig.Tables, shares int) units {
	models := make([]gpu.Model, len(names))
	for i, name := range names {
		var known bool
		if models[i], known = tables.Model(name, 0); !known {
			models[i] = gpu.Model{Name: name}
		}
	}
	return units{plan.NewScale(tables, models), shares}
}

// perUnit is one unit of an extended resource in thousandths of slices of a GPU; false if it is no
// GPU or has no fixed share of one.
func (u units) perUnit(name string) (quota.Amount, bool) {
	// 100, because some dialects count hundredths of a GPU.
	const many = 100
	d, err := demand.FromResources(map[string]int64{plainName(name): many})
	switch {
	case err != nil || d.Zero():
		return quota.Amount{}, false
	case d.GPUs > 0:
		return quota.Amount{Compute: wholeGPU.Compute * int64(d.GPUs) / many, Memory: wholeGPU.Memory * int64(d.GPUs) / many}, true
	case d.Fraction.Shares() && u.shares > 0: // in whole slices, as pods are counted: else the pods that the quota admits would exceed it
		part := func(slices int) int64 { return 1000 * int64((slices+u.shares-1)/u.shares) }
		return quota.Amount{Compute: part(computeSlices), Memory: part(memorySlices)}, true
	case len(d.MIG) == 1:
		one := u.scale.Instance(d.MIG[0])
		return quota.Amount{Compute: one.Compute * 1000, Memory: one.Memory * 1000}, true
	}
	return quota.Amount{}, false
}

// times multiplies an amount in thousandths of slices by n, and rounds down. It returns otherwise if n is not set.
func times(one quota.Amount, n *float64, otherwise quota.Amount) quota.Amount {
	switch {
	case n == nil:
		return otherwise
	case *n > math.MaxInt32:
		return quota.All()
	case !(*n > 0):
		return quota.Amount{}
	}
	part := func(per int64) int64 { return int64(math.Floor(*n*float64(per)/1000 + 1e-9)) }
	return quota.Amount{Compute: part(one.Compute), Memory: part(one.Memory)}
}
