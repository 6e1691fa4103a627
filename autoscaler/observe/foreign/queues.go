package foreign

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// kueueQuota is the common part of ClusterQueues and Cohorts.
type kueueQuota struct {
	ResourceGroups []struct {
		Flavors []struct {
			Resources []struct {
				Name           string             `json:"name"`
				NominalQuota   *resource.Quantity `json:"nominalQuota"`
				BorrowingLimit *resource.Quantity `json:"borrowingLimit"`
				LendingLimit   *resource.Quantity `json:"lendingLimit"`
			} `json:"resources"`
		} `json:"flavors"`
	} `json:"resourceGroups"`
}

// quotas sums all flavors: the flavor of a demand is not known yet.
func (q kueueQuota) quotas() []Quota {
	var out []Quota
	for _, group := range q.ResourceGroups {
		for _, flavor := range group.Flavors {
			for _, r := range flavor.Resources {
				nominal := amountOf(r.NominalQuota)
				if nominal == nil {
					nominal = &Amount{}
				}
				out = append(out, Quota{Resource: r.Name, Guaranteed: nominal, Borrow: amountOf(r.BorrowingLimit), Lend: amountOf(r.LendingLimit)})
			}
		}
	}
	return out
}

// parseKueueQueue reads a ClusterQueue or a Cohort. Their parent fields have different names, and
// changed with v1beta2.
func parseKueueQueue(object map[string]any, o *Object) error {
	var from struct {
		Spec struct {
			kueueQuota `json:",inline"`
			CohortName string `json:"cohortName"`
			Cohort     string `json:"cohort"`
			ParentName string `json:"parentName"`
			Parent     string `json:"parent"`
		} `json:"spec"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	s := &from.Spec
	o.Queue = &Queue{Parent: cmp.Or(s.CohortName, s.Cohort, s.ParentName, s.Parent), Quotas: s.quotas()}
	return nil
}

func parseLocalQueue(object map[string]any, o *Object) error {
	var from struct {
		Spec struct {
			ClusterQueue string `json:"clusterQueue"`
		} `json:"spec"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	o.Queue = &Queue{ClusterQueue: from.Spec.ClusterQueue}
	return nil
}

func parseFlavor(object map[string]any, o *Object) error {
	var from struct {
		Spec struct {
			NodeLabels  map[string]string   `json:"nodeLabels"`
			Tolerations []corev1.Toleration `json:"tolerations"`
		} `json:"spec"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	o.Flavor = &Flavor{NodeLabels: from.Spec.NodeLabels, Tolerations: from.Spec.Tolerations}
	return nil
}

// parseVolcanoQueue reads a queue. Its deserved amount is its guarantee, since Volcano reclaims for
// it; a queue that only has a capability is guaranteed up to there.
func parseVolcanoQueue(object map[string]any, o *Object) error {
	var from struct {
		Spec struct {
			Capability corev1.ResourceList `json:"capability"`
			Deserved   corev1.ResourceList `json:"deserved"`
			Guarantee  struct {
				Resource corev1.ResourceList `json:"resource"`
			} `json:"guarantee"`
			Reclaimable *bool  `json:"reclaimable"`
			Parent      string `json:"parent"`
		} `json:"spec"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	s := &from.Spec
	o.Queue = &Queue{Parent: s.Parent, Whole: true}
	names := map[corev1.ResourceName]bool{}
	for _, list := range []corev1.ResourceList{s.Capability, s.Deserved, s.Guarantee.Resource} {
		for name := range list {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		q := Quota{Resource: string(name), Limit: listed(s.Capability, name)}
		for _, from := range []corev1.ResourceList{s.Deserved, s.Guarantee.Resource, s.Capability} {
			if q.Guaranteed == nil {
				q.Guaranteed = listed(from, name)
			}
		}
		if s.Reclaimable != nil && !*s.Reclaimable {
			q.Lend = &Amount{}
		}
		o.Queue.Quotas = append(o.Queue.Quotas, q)
	}
	return nil
}

func listed(list corev1.ResourceList, name corev1.ResourceName) *Amount {
	q, ok := list[name]
	if !ok {
		return nil
	}
	return amountOf(&q)
}

// kaiGPU is the resource that a KAI queue's gpu numbers count: whole GPUs.
const kaiGPU = "nvidia.com/gpu"

func parseKAIQueue(object map[string]any, o *Object) error {
	var from struct {
		Spec struct {
			ParentQueue string `json:"parentQueue"`
			Resources   *struct {
				GPU struct {
					Quota *number `json:"quota"`
					Limit *number `json:"limit"`
				} `json:"gpu"`
			} `json:"resources"`
		} `json:"spec"`
	}
	if err := decode(object, &from); err != nil {
		return err
	}
	o.Queue = &Queue{Parent: from.Spec.ParentQueue, Whole: true}
	if r := from.Spec.Resources; r != nil {
		limit := kaiAmount(r.GPU.Limit)
		if limit == nil {
			limit = &Amount{} // no borrowing beyond the quota
		}
		o.Queue.Quotas = []Quota{{Resource: kaiGPU, Guaranteed: kaiAmount(r.GPU.Quota), Limit: limit}}
	}
	return nil
}

// kaiAmount converts KAI's number: -1 is unbounded.
func kaiAmount(n *number) *Amount {
	switch {
	case n == nil:
		return nil
	case *n < 0:
		return &Amount{Unlimited: true}
	}
	return &Amount{Number: float64(*n)}
}
