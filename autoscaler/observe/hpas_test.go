package observe

import (
	"slices"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
)

func hpaFor(name, kind, target string, conditions ...autoscalingv2.HorizontalPodAutoscalerCondition) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: kind, Name: target}, MaxReplicas: 5,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{CurrentReplicas: 2, DesiredReplicas: 3, Conditions: conditions},
	}
}

func condition(kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason string) autoscalingv2.HorizontalPodAutoscalerCondition {
	return autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind, Status: status, Reason: reason}
}

// TestHPAs: an HPA is listed if its pods request GPUs; without pods, its target's
// template decides and is read once.
func TestHPAs(t *testing.T) {
	running := pod("vllm-0", "n", halves(1))
	running.OwnerReferences = []metav1.OwnerReference{{Controller: ptr.To(true), Kind: "StatefulSet", Name: "vllm"}}
	plain := pod("web-0", "n", corev1.ResourceList{"cpu": resource.MustParse("1")})
	plain.OwnerReferences = []metav1.OwnerReference{{Controller: ptr.To(true), Kind: "StatefulSet", Name: "web"}}
	template := func(name string, requests corev1.ResourceList) *foreign.Object {
		return &foreign.Object{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name}, Maker: &foreign.Maker{Roles: []foreign.Role{{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}}},
		}}}}
	}
	asleep, website := template("asleep", halves(2)), template("website", corev1.ResourceList{"cpu": resource.MustParse("1")})
	w := newWorld(t, pool("p"), node("n", halves(2)), running, plain,
		hpaFor("vllm", "StatefulSet", "vllm",
			condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "ReadyForNewScale"),
			condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, "FailedGetPodsMetric"),
			condition(autoscalingv2.ScalingLimited, corev1.ConditionTrue, "TooManyReplicas")),
		hpaFor("web", "StatefulSet", "web"), hpaFor("asleep", "Deployment", "asleep"), hpaFor("website", "Deployment", "website"),
		hpaFor("lost", "Deployment", "gone"))
	w.o.o.Foreign = func() (foreign.Objects, error) {
		return foreign.Objects{foreign.Deployment: {asleep, website}}, nil
	}
	for range 2 { // the second time from the cache
		got := w.at(0).HPAs
		if len(got) != 2 || got[0].Name != "asleep" || got[1].Name != "vllm" {
			t.Fatalf("%+v", got)
		}
		if a := got[0]; a.Seen || a.Min != 1 || a.Max != 5 || len(a.Limits) > 0 {
			t.Errorf("%+v: its controller has never looked at it", a)
		}
		if v := got[1]; !v.Seen || v.Current != 2 || v.Desired != 3 || !slices.Equal(v.Limits, []string{"FailedGetPodsMetric", "TooManyReplicas"}) {
			t.Errorf("%+v", v)
		}
	}
	if len(w.o.requesting) != 2 || !w.o.requesting[asleep] || w.o.requesting[website] {
		t.Errorf("cached %v", w.o.requesting)
	}
}

// TestRefusedReplicasExpire: replicas that an HPA requests and that are never created, for a reason that
// no quota explains, are no demand after ten minutes: a node would be kept for them for ever.
func TestRefusedReplicasExpire(t *testing.T) {
	for name, c := range map[string]struct {
		scaled time.Duration // before now
		quota  bool
		want   int // missing replicas that are demand
	}{
		"just now":                   {time.Minute, false, 1},
		"long ago":                   {20 * time.Minute, false, 0},
		"long ago, a quota explains": {20 * time.Minute, true, 1},
	} {
		h := hpaFor("vllm", "StatefulSet", "vllm")
		h.Status.DesiredReplicas, h.Status.CurrentReplicas = 1, 0
		h.Status.LastScaleTime = ptr.To(metav1.NewTime(start.Add(-c.scaled)))
		objects := []client.Object{poolOf("NVIDIA-L40S", 1), bare("n", amount("nvidia.com/gpu", 1)), h}
		if c.quota {
			objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "chat"}}, &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "none"},
				Spec:       corev1.ResourceQuotaSpec{Hard: amount("requests.nvidia.com/gpu", 0)},
				Status:     corev1.ResourceQuotaStatus{Hard: amount("requests.nvidia.com/gpu", 0), Used: amount("requests.nvidia.com/gpu", 0)},
			})
		}
		w := newWorld(t, objects...)
		w.o.o.Foreign = func() (foreign.Objects, error) {
			return foreign.Objects{foreign.StatefulSet: {{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "vllm"}, Kind: foreign.StatefulSet, Maker: &foreign.Maker{Sets: 1, Roles: []foreign.Role{{
				Count: 1, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amount("nvidia.com/gpu", 1)}}}}},
			}}}}}}, nil
		}
		got := 0
		for _, p := range w.at(0).Pods {
			if p.Unmade {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s: %d replicas are demand, want %d", name, got, c.want)
		}
	}
}
