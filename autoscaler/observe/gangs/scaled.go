package gangs

import (
	"cmp"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// scalable are the scale targets whose own spec is not their demand: the HPA's status is.
var scalable = map[string]foreign.Kind{"Deployment": foreign.Deployment, "StatefulSet": foreign.StatefulSet}

// scaled adds the replicas that HPAs request and that do not exist yet: a pod that a quota refuses
// is visible nowhere else.
func (j *joiner) scaled() {
	var have map[id]int
	order := make([]*autoscalingv2.HorizontalPodAutoscaler, len(j.in.HPAs))
	for i := range j.in.HPAs {
		order[i] = &j.in.HPAs[i]
	}
	slices.SortFunc(order, func(a, b *autoscalingv2.HorizontalPodAutoscaler) int { // the first created gets what a quota leaves
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, h := range order {
		ref := h.Spec.ScaleTargetRef
		of := id{scalable[ref.Kind], h.Namespace, ref.Name}
		o := j.makers[of]
		if o == nil || of.kind == "" || !strings.HasPrefix(ref.APIVersion, "apps/") || o.Maker.Over || !acts(h) || len(o.Maker.Roles) != 1 {
			continue
		}
		if have == nil {
			have = j.replicas()
		}
		missing := min(int(h.Status.DesiredReplicas), int(h.Spec.MaxReplicas)) - have[of]
		if missing <= 0 {
			continue
		}
		have[of] += missing // a second HPA on it requests the same ones
		since := h.CreationTimestamp
		if h.Status.LastScaleTime != nil {
			since = *h.Status.LastScaleTime
		}
		j.make(nil, missing, o.Name, j.shapeOf(o, &o.Maker.Roles[0].Template, since))
	}
}

// acts reports whether an HPA's desired replicas are current: an HPA without metrics keeps an old
// number.
func acts(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	for _, c := range h.Status.Conditions {
		if c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse {
			return false
		}
	}
	return h.DeletionTimestamp == nil
}

// replicas counts the pods of Deployments and StatefulSets.
func (j *joiner) replicas() map[id]int {
	out := map[id]int{}
	for i := range j.in.Pods {
		p := j.in.Pods[i].Pod
		ref := metav1.GetControllerOfNoCopy(p)
		if ref == nil || kube.IsOver(p) || p.DeletionTimestamp != nil {
			continue
		}
		switch ref.Kind {
		case "StatefulSet":
			out[id{foreign.StatefulSet, p.Namespace, ref.Name}]++
		case "ReplicaSet":
			if name, ok := strings.CutSuffix(ref.Name, "-"+p.Labels["pod-template-hash"]); ok {
				out[id{foreign.Deployment, p.Namespace, name}]++
			}
		}
	}
	return out
}
