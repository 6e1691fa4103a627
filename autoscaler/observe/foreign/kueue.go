package foreign

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kueueWorkload is a Workload, in v1beta1 and v1beta2.
type kueueWorkload struct {
	Spec struct {
		PodSets []struct {
			Name     string                 `json:"name"`
			Count    *int64                 `json:"count"`
			MinCount *int64                 `json:"minCount"`
			Template corev1.PodTemplateSpec `json:"template"`
			// From the annotation kueue.x-k8s.io/podset-required-topology.
			TopologyRequest struct {
				Required string `json:"required"`
			} `json:"topologyRequest"`
		} `json:"podSets"`
		QueueName string `json:"queueName"`
		Active    *bool  `json:"active"`
		Priority  *int32 `json:"priority"`
		// v1beta1 has the class's name and its source, v1beta2 a reference.
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
				Name    string            `json:"name"`
				Count   *int64            `json:"count"`
				Flavors map[string]string `json:"flavors"` // by resource
			} `json:"podSetAssignments"`
		} `json:"admission"`
		AdmissionChecks []struct {
			State         string         `json:"state"`
			PodSetUpdates []podSetUpdate `json:"podSetUpdates"`
		} `json:"admissionChecks"`
		// The cluster where MultiKueue runs it, and those it is nominated for.
		ClusterName           string   `json:"clusterName"`
		NominatedClusterNames []string `json:"nominatedClusterNames"`
		ReclaimablePods       []struct {
			Name  string `json:"name"`
			Count *int64 `json:"count"`
		} `json:"reclaimablePods"`
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// podSetUpdate is what an admission check adds to the pods of a set.
type podSetUpdate struct {
	Name         string              `json:"name"`
	Labels       map[string]string   `json:"labels"`
	Annotations  map[string]string   `json:"annotations"`
	NodeSelector map[string]string   `json:"nodeSelector"`
	Tolerations  []corev1.Toleration `json:"tolerations"`
}

// parseKueueWorkload reads a Workload. It is demand once its quota is reserved, even while an
// admission check is pending, possibly for these nodes. What MultiKueue dispatches to another
// cluster is demand there.
func parseKueueWorkload(object map[string]any, o *Object) error {
	var from kueueWorkload
	if err := decode(object, &from); err != nil {
		return err
	}
	conditions := from.Status.Conditions
	m := &Maker{
		Sets: 1, Queue: from.Spec.QueueName,
		Over: isTrue(conditions, "Finished"), Started: isTrue(conditions, "Admitted"),
		Inactive: from.Spec.Active != nil && !*from.Spec.Active || !isTrue(conditions, "QuotaReserved") || isTrue(conditions, "Evicted") ||
			from.Status.ClusterName != "" || len(from.Status.NominatedClusterNames) > 0,
	}
	if c := meta.FindStatusCondition(conditions, "QuotaReserved"); c != nil {
		m.Admitted = c.LastTransitionTime
	}
	// A WorkloadPriorityClass orders the queue; pods have the class of their template.
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
		m.Roles = append(m.Roles, Role{Name: set.Name, Count: count(set.Count), Template: slim(set.Template), Near: set.TopologyRequest.Required})
	}
	from.amend(m)
	o.Maker = m
	return nil
}

// amend applies the admission, which may be of fewer pods than requested, and the reclaimable pods.
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
			r := role(set.Name)
			if set.Count != nil {
				r.Count = count(set.Count)
			}
			r.Flavors = slices.Compact(slices.Sorted(maps.Values(set.Flavors)))
		}
	}
	for _, check := range w.Status.AdmissionChecks {
		for i := range check.PodSetUpdates {
			if update := &check.PodSetUpdates[i]; check.State == "Ready" {
				update.addTo(&role(update.Name).Template)
			}
		}
	}
	for _, set := range w.Status.ReclaimablePods {
		role(set.Name).Done = bounded(set.Count, 0)
	}
	for _, set := range w.Spec.PodSets {
		// With a minimum count, fewer pods are useful too.
		m.Min += min(bounded(set.MinCount, role(set.Name).Count), role(set.Name).Count)
	}
}

func (u *podSetUpdate) addTo(t *corev1.PodTemplateSpec) {
	t.Labels = with(t.Labels, u.Labels)
	t.Annotations = with(t.Annotations, short(u.Annotations, ""))
	t.Spec.NodeSelector = with(t.Spec.NodeSelector, u.NodeSelector)
	t.Spec.Tolerations = append(slices.Clip(t.Spec.Tolerations), u.Tolerations...)
}

// with returns a map and the entries that more adds to it; neither is written to.
func with(a, more map[string]string) map[string]string {
	if len(more) == 0 {
		return a
	}
	out := maps.Clone(more)
	maps.Copy(out, a)
	return out
}
