package foreign

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kueueWorkload is a Workload, as v1beta1 and v1beta2 have it.
type kueueWorkload struct {
	Spec struct {
		PodSets []struct {
			Name     string                 `json:"name"`
			Count    *int32                 `json:"count"`
			MinCount *int32                 `json:"minCount"`
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"podSets"`
		QueueName string `json:"queueName"`
		Active    *bool  `json:"active"`
		Priority  *int32 `json:"priority"`
		// v1beta1 has the class's name beside where it is from, v1beta2 a reference.
		PriorityClassName   string `json:"priorityClassName"`
		PriorityClassSource string `json:"priorityClassSource"`
		PriorityClassRef    *struct {
			Group string `json:"group"`
			Name  string `json:"name"`
		} `json:"priorityClassRef"`
	} `json:"spec"`
	Status struct {
		Admission *struct {
			ClusterQueue      string `json:"clusterQueue"`
			PodSetAssignments []struct {
				Name  string `json:"name"`
				Count *int32 `json:"count"`
			} `json:"podSetAssignments"`
		} `json:"admission"`
		ReclaimablePods []struct {
			Name  string `json:"name"`
			Count *int32 `json:"count"`
		} `json:"reclaimablePods"`
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// parseKueueWorkload: a Workload is demand from when its quota is reserved, whether
// or not an admission check still waits, perhaps for these very nodes.
func parseKueueWorkload(object map[string]any, o *Object) error {
	var from kueueWorkload
	if err := decode(object, &from); err != nil {
		return err
	}
	conditions := from.Status.Conditions
	m := &Maker{
		Sets: 1, Queue: from.Spec.QueueName,
		Over: isTrue(conditions, "Finished"),
		Held: from.Spec.Active != nil && !*from.Spec.Active || !isTrue(conditions, "QuotaReserved") || isTrue(conditions, "Evicted"),
	}
	if c := meta.FindStatusCondition(conditions, "QuotaReserved"); c != nil {
		m.Admitted = c.LastTransitionTime
	}
	// A class of Kueue's own orders the queue; pods have the class of their template.
	m.PriorityClass = from.Spec.PriorityClassName
	if ref := from.Spec.PriorityClassRef; ref != nil {
		m.PriorityClass, from.Spec.PriorityClassSource = ref.Name, ref.Group
	}
	if from.Spec.PriorityClassSource == "kueue.x-k8s.io/workloadpriorityclass" || from.Spec.PriorityClassSource == "kueue.x-k8s.io" {
		m.PriorityClass = ""
	} else if m.PriorityClass != "" {
		m.Priority = from.Spec.Priority
	}
	for _, set := range from.Spec.PodSets {
		m.Roles = append(m.Roles, Role{Name: set.Name, Count: count(set.Count), Template: slim(set.Template)})
	}
	from.amend(m)
	o.Maker = m
	return nil
}

// amend takes in what was admitted, which may be less than was asked for, and what
// is not needed any more.
func (w *kueueWorkload) amend(m *Maker) {
	role := func(name string) *Role {
		for i := range m.Roles {
			if m.Roles[i].Name == name {
				return &m.Roles[i]
			}
		}
		return &Role{}
	}
	if a := w.Status.Admission; a != nil {
		m.ClusterQueue = a.ClusterQueue
		for _, set := range a.PodSetAssignments {
			if set.Count != nil {
				role(set.Name).Count = count(set.Count)
			}
		}
	}
	for _, set := range w.Status.ReclaimablePods {
		role(set.Name).Done = bounded(set.Count, 0)
	}
	for _, set := range w.Spec.PodSets {
		// With a least count fewer are of use too.
		m.Min += min(bounded(set.MinCount, role(set.Name).Count), role(set.Name).Count)
	}
}
