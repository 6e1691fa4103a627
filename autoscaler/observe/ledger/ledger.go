package ledger

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// Input is everything that quotas are made of.
type Input struct {
	Quotas         []v1alpha1.GPUQuota
	ResourceQuotas []corev1.ResourceQuota
	Namespaces     []corev1.Namespace
	Objects        foreign.Objects
	// Models of the cluster's cards, by gpuscale's names, and what their nodes have
	// published of them: what a profile's name means depends on the product.
	Models []string
	Tables mig.Tables
}

// Ledger is the tree, and who counts towards what in it.
type Ledger struct {
	// Tenants make a tree that can be built.
	Tenants []plan.Tenant
	// Problems of quotas, by kind and name ("GPUQuota team-a"). A quota with one
	// holds as far as it can be understood; what of it does not is in the sentence.
	Problems map[string]error

	units      units
	covers     map[string][]cover // by namespace
	namespaces map[string]labels.Set
	listed     map[string][]*limits // ResourceQuotas by namespace
	rooms      map[string][]*room   // what they leave, likewise
	usages     map[*corev1.PodSpec]corev1.ResourceList
	names      map[string]bool
	objects    map[objectKey]*foreign.Object
}

type objectKey struct {
	kind            foreign.Kind
	namespace, name string
}

// New makes the ledger.
func New(in Input) *Ledger {
	l := &Ledger{
		Problems: map[string]error{}, covers: map[string][]cover{}, namespaces: map[string]labels.Set{},
		listed: map[string][]*limits{}, rooms: map[string][]*room{}, usages: map[*corev1.PodSpec]corev1.ResourceList{}, names: map[string]bool{}, objects: map[objectKey]*foreign.Object{},
	}
	l.units = newUnits(in.Models, in.Tables)
	for i := range in.Namespaces {
		l.namespaces[in.Namespaces[i].Name] = in.Namespaces[i].Labels
	}
	var t tree
	t.problems = l.Problems
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

// Claim is who asks: a pod that exists or is still to be made.
type Claim struct {
	Namespace           string
	Labels, Annotations map[string]string
	SchedulerName       string
	Demand              demand.Demand
	// Model of the cards it asks for or has, empty where any will do.
	Model string
	// Workload of Kueue and PodGroup it is of, by name, empty for none.
	Workload, PodGroup string
}

// Tenant is the quota that a claim counts towards, empty for none. A GPUQuota goes
// first, since it is made for this; then the queue that the pod goes through; then
// what its namespace is allowed.
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
	if l.Problems[of] == nil { // the first is the one to mend first
		l.Problems[of] = fmt.Errorf(format, args...)
	}
}

// sorted gives objects an order by name.
func sorted(all []*foreign.Object) []*foreign.Object {
	return slices.SortedFunc(slices.Values(all), func(a, b *foreign.Object) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
}
