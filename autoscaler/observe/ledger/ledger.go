package ledger

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
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

	units      units
	covers     map[string][]cover // by namespace
	namespaces map[string]labels.Set
	listed     map[string][]*limits   // ResourceQuotas by namespace
	headrooms  map[string][]*headroom // their free capacity, by namespace
	usages     map[*corev1.PodSpec]corev1.ResourceList
	names      map[string]bool
	objects    map[objectKey]*foreign.Object
}

type objectKey struct {
	kind            foreign.Kind
	namespace, name string
}

// New builds the ledger.
func New(in Input) *Ledger {
	l := &Ledger{
		Problems: map[string]error{}, covers: map[string][]cover{}, namespaces: map[string]labels.Set{},
		listed: map[string][]*limits{}, headrooms: map[string][]*headroom{}, usages: map[*corev1.PodSpec]corev1.ResourceList{}, names: map[string]bool{}, objects: map[objectKey]*foreign.Object{},
	}
	l.units = newUnits(in.Models, in.Tables, in.Shares)
	for i := range in.Namespaces {
		l.namespaces[in.Namespaces[i].Name] = in.Namespaces[i].Labels
	}
	t := tree{problem: l.problem}
	l.addQuotas(&t, in.Quotas)
	l.addKueue(&t, in.Objects)
	l.addQueues(&t, in.Objects, foreign.VolcanoQueue, volcanoPrefix)
	l.addQueues(&t, in.Objects, foreign.KAIQueue, kaiPrefix)
	l.addResourceQuotas(&t, in.ResourceQuotas)
	l.Tenants = t.build()
	for i := range l.Tenants {
		l.names[l.Tenants[i].Name] = true
	}
	for _, k := range []foreign.Kind{foreign.KueueLocalQueue, foreign.KueueWorkload, foreign.VolcanoPodGroup, foreign.KAIPodGroup} {
		for _, o := range in.Objects[k] {
			l.objects[objectKey{k, o.Namespace, o.Name}] = o
		}
	}
	return l
}

// Claim is a pod that exists or is still to be created.
type Claim struct {
	Namespace           string
	Labels, Annotations map[string]string
	SchedulerName       string
	Demand              demand.Demand
	Shares              bool // the demand's fraction is shares of GPUs
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

// sorted orders objects by name.
func sorted(all []*foreign.Object) []*foreign.Object {
	return slices.SortedFunc(slices.Values(all), func(a, b *foreign.Object) int {
		return strings.Compare(a.Name, b.Name)
	})
}
