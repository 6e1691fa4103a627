package ledger

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
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

	tenants    []entry // as they are defined; Tenants without what is invalid
	units      units
	covers     map[string][]cover // by namespace
	namespaces map[string]labels.Set
	listed     map[string][]*limits   // ResourceQuotas by namespace
	headrooms  map[string][]*headroom // their free capacity, by namespace
	usages     map[*corev1.PodSpec]corev1.ResourceList
	names      map[string]bool
	objects    foreign.Objects
}

// New builds the ledger.
func New(in Input) *Ledger {
	l := &Ledger{
		Problems: map[string]error{}, covers: map[string][]cover{}, namespaces: map[string]labels.Set{},
		listed: map[string][]*limits{}, headrooms: map[string][]*headroom{}, usages: map[*corev1.PodSpec]corev1.ResourceList{}, names: map[string]bool{}, objects: in.Objects,
	}
	l.units = newUnits(in.Models, in.Tables, in.Shares)
	for i := range in.Namespaces {
		l.namespaces[in.Namespaces[i].Name] = in.Namespaces[i].Labels
	}
	l.addQuotas(in.Quotas)
	l.addKueue()
	l.addQueues(foreign.VolcanoQueue, volcanoPrefix)
	l.addQueues(foreign.KAIQueue, kaiPrefix)
	l.addResourceQuotas(in.ResourceQuotas)
	l.build()
	for i := range l.Tenants {
		l.names[l.Tenants[i].Name] = true
	}
	return l
}

// Claim is a pod that exists or is still to be created.
type Claim struct {
	*corev1.Pod
	Demand demand.Demand
	Shares bool // the demand's fraction is shares of GPUs
	// Model of the GPUs it requests or has, empty for any.
	Model string
	// Workload (Kueue) and PodGroup of the pod, by name, empty for none.
	Workload, PodGroup string
}

// Tenant returns the quota that a claim counts towards, empty for none: a GPUQuota first, then the
// queue of the pod, then a ResourceQuota of its namespace.
func (l *Ledger) Tenant(c Claim) string {
	if name := l.ofQuota(c); name != "" {
		return name
	}
	for _, name := range []string{l.ofKueue(c), l.ofVolcano(c), l.ofKAI(c)} {
		if name != "" && l.names[name] {
			return name
		}
	}
	return l.ofNamespace(c)
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

// gpus converts GPU equivalents into slices, rounded down.
func gpus(n float64) quota.Amount {
	part := func(slices float64) int64 {
		v := math.Floor(n*slices + 1e-9)
		switch {
		case !(v > 0):
			return 0
		case v >= math.MaxInt32:
			return quota.Unlimited
		}
		return int64(v)
	}
	return quota.Amount{Compute: part(computeSlices), Memory: part(memorySlices)}
}

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
}

// build makes a valid tree of the tenants. Whatever is invalid is recorded as a problem of the
// object that defines it, and left out.
func (l *Ledger) build() {
	slices.SortStableFunc(l.tenants, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	l.tenants = slices.CompactFunc(l.tenants, func(a, b entry) bool { return a.Name == b.Name })
	index := map[string]int{}
	for i := range l.tenants {
		index[l.tenants[i].Name] = i
	}
	for i := range l.tenants {
		e := &l.tenants[i]
		if _, ok := index[e.Parent]; !ok && e.Parent != "" {
			l.problem(e.of, "spec.parent: there is no %q: the quota has no parent, and neither lends nor borrows; create it or correct the name", e.Parent)
			e.Parent = ""
		}
	}
	l.breakCircles(index)
	l.share(index)
	l.limit(index)
	l.Tenants = make([]plan.Tenant, len(l.tenants))
	for i := range l.tenants {
		l.Tenants[i] = l.tenants[i].Tenant
	}
}

// breakCircles removes the parents of all tenants in a circle.
func (l *Ledger) breakCircles(index map[string]int) {
	var inCircle []int
	for i := range l.tenants {
		at, path := i, []string{l.tenants[i].Name}
		for range l.tenants {
			parent := l.tenants[at].Parent
			if parent == "" {
				break
			}
			at = index[parent]
			path = append(path, parent)
			if at == i {
				inCircle = append(inCircle, i)
				l.problem(l.tenants[i].of, "spec.parent: a circle, %s: none of these has a parent; remove the parent of one of them", strings.Join(path, " → "))
				break
			}
		}
	}
	for _, i := range inCircle {
		l.tenants[i].Parent = ""
	}
}

// share subtracts the children's guarantees from parents whose guarantee includes them.
func (l *Ledger) share(index map[string]int) {
	under := make([]quota.Amount, len(l.tenants))
	for i := range l.tenants {
		if p := l.tenants[i].Parent; p != "" {
			under[index[p]] = under[index[p]].Add(l.tenants[i].Guarantee)
		}
	}
	for i := range l.tenants {
		if e := &l.tenants[i]; e.whole {
			e.Guarantee = e.Guarantee.Sub(under[i]).Floor()
		}
	}
}

// limit raises limits that are below the guarantees under them.
func (l *Ledger) limit(index map[string]int) {
	guaranteed := make([]quota.Amount, len(l.tenants))
	for i := range l.tenants {
		// Up to the root; breakCircles guarantees that there is one.
		for at, steps := i, 0; steps <= len(l.tenants); steps++ {
			guaranteed[at] = guaranteed[at].Add(l.tenants[i].Guarantee)
			if l.tenants[at].Parent == "" {
				break
			}
			at = index[l.tenants[at].Parent]
		}
	}
	for i := range l.tenants {
		e := &l.tenants[i]
		if !guaranteed[i].Fits(e.Limit) {
			if !e.whole {
				l.problem(e.of, "limit: %s is below what is guaranteed to it and under it, %s, which holds; raise the limit or lower a guarantee",
					text(equivalents(e.Limit)), text(equivalents(guaranteed[i])))
			}
			e.Limit = e.Limit.Max(guaranteed[i])
		}
	}
}

// units converts resources into slices of a GPU.
type units struct {
	scale  *plan.Scale
	shares int // of a GPU, where GPUs are given in shares
}

// newUnits takes the models of the cluster's GPUs, by name.
func newUnits(models []string, tables mig.Tables, shares int) units {
	known := make([]gpu.Model, len(models))
	for i, name := range models {
		known[i] = gpu.Model{Name: name}
		if m, ok := tables.Model(name, 0); ok {
			known[i] = m
		}
	}
	return units{plan.NewScale(tables, known), shares}
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
		per := int64(d.GPUs) * 1000 / many
		return quota.Amount{Compute: per * computeSlices, Memory: per * memorySlices}, true
	case d.Fraction.Shares() && u.shares > 0: // in whole slices, as pods are counted: else those that the quota admits exceed it
		part := func(slices int) int64 { return 1000 * int64((slices+u.shares-1)/u.shares) }
		return quota.Amount{Compute: part(computeSlices), Memory: part(memorySlices)}, true
	case len(d.MIG) == 1:
		one := u.scale.Instance(d.MIG[0])
		return quota.Amount{Compute: one.Compute * 1000, Memory: one.Memory * 1000}, true
	}
	return quota.Amount{}, false
}

// times multiplies a number of units, otherwise if it is not set.
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
