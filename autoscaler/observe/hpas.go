package observe

import (
	"cmp"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/plan"
)

// HPA is an HPA whose pods request GPUs, for display. No decision depends on it: its demand is in
// the Snapshot as pods.
type HPA struct {
	Namespace, Name string
	Min, Max        int
	// Current and Desired are the controller's last status; Seen is false while the controller has
	// written none.
	Current, Desired int
	Seen             bool
	// Limits are the condition reasons for which the HPA is not able to scale, not active, or
	// limited; sorted, without duplicates.
	Limits []string
}

// hpas returns the HPAs whose target's pods request GPUs, by namespace and name. A target without
// pods is judged by its template. The result is cached per object, since there may be thousands
// that request none.
func (o *Observer) hpas(v *converter, pods []plan.Pod) []HPA {
	wanting := map[string]bool{}
	for i := range pods {
		if p := &pods[i]; !p.Demand.Zero() && p.Owner != "" {
			wanting[p.Namespace+"/"+p.Owner] = true
		}
	}
	judged := map[*foreign.Object]bool{}
	var out []HPA
	for i := range v.c.hpas {
		h := &v.c.hpas[i]
		ref := h.Spec.ScaleTargetRef
		if wanting[h.Namespace+"/"+ref.Kind+"/"+ref.Name] || o.templateWants(v, h.Namespace, ref, judged) {
			out = append(out, hpaOf(h))
		}
	}
	o.requesting = judged
	slices.SortFunc(out, func(a, b HPA) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// templateWants reports whether pods of the target's template would request GPUs.
func (o *Observer) templateWants(v *converter, namespace string, ref autoscalingv2.CrossVersionObjectReference, judged map[*foreign.Object]bool) bool {
	object := v.workload(Series{Namespace: namespace, Kind: ref.Kind, Name: ref.Name})
	if object == nil {
		return false
	}
	requests, known := o.requesting[object]
	if !known {
		requests = !v.template(namespace, &object.Maker.Roles[0].Template).Demand.Zero()
	}
	judged[object] = requests
	return requests
}

func hpaOf(h *autoscalingv2.HorizontalPodAutoscaler) HPA {
	out := HPA{
		Namespace: h.Namespace, Name: h.Name, Min: int(ptr.Deref(h.Spec.MinReplicas, 1)), Max: int(h.Spec.MaxReplicas),
		Current: int(h.Status.CurrentReplicas), Desired: int(h.Status.DesiredReplicas), Seen: len(h.Status.Conditions) > 0,
	}
	for _, c := range h.Status.Conditions {
		bad := corev1.ConditionFalse
		if c.Type == autoscalingv2.ScalingLimited {
			bad = corev1.ConditionTrue
		}
		if c.Status == bad && c.Reason != "" {
			out.Limits = append(out.Limits, c.Reason)
		}
	}
	slices.Sort(out.Limits)
	out.Limits = slices.Compact(out.Limits)
	return out
}
