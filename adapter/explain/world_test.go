package explain

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	autoscaling "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestAllowed: an error distinguishes a caller that is not authenticated from one that lacks a right.
func TestAllowed(t *testing.T) {
	hpa := schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}
	for want, err := range map[string]error{
		"does not authenticate the caller": apierrors.NewUnauthorized("the token has expired"),
		"explain needs the role view":      apierrors.NewForbidden(hpa, "vllm", errors.New("no")),
	} {
		if got := allowed(err); !strings.Contains(got.Error(), want) || !errors.Is(got, err) {
			t.Errorf("%v: want %q in it", got, want)
		}
	}
}

// TestPodsOfObjects: the objects that are read from the cluster give the pods of each object that a metric may be
// about, as the adapter's informers of the same type do.
func TestPodsOfObjects(t *testing.T) {
	want := map[string]string{
		"apps/v1 Deployment vllm":                           "[a b]",
		"apps/v1 Deployment idle":                           "[] at zero",
		"apps/v1 Deployment lost":                           "[]",
		"apps/v1 Deployment none":                           "[]",
		"apps/v1 StatefulSet group":                         "[group-0]",
		"apps/v1 StatefulSet group-0":                       "[group-0-1]",
		"leaderworkerset.x-k8s.io/v1 LeaderWorkerSet group": "[group-0 group-0-1]",
		"example.io/v1 Model m":                             "[a b orphan]",
		"example.io/v1 Model loose":                         "[]",
		"example.io/v1 Model none":                          "Model chat/none owns no pods and its selector is unknown",
		"example.io/v1alpha1 Gateway g":                     "[a b orphan]", // of a version that is no longer served
		"example.io/v1 Service web":                         "Service chat/web owns no pods and its selector is unknown",
		"v1 Service web":                                    "[a b orphan]",
		"v1 Service bare":                                   "Service chat/bare has no selector",
		"v1 Service gone":                                   "there is no Service chat/gone",
	}
	target := autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "vllm"}
	given := autoscaling.HorizontalPodAutoscaler{Spec: autoscaling.HorizontalPodAutoscalerSpec{ScaleTargetRef: target, MaxReplicas: 9}}
	object := func(text string) autoscaling.CrossVersionObjectReference {
		f := strings.Fields(text)
		return autoscaling.CrossVersionObjectReference{APIVersion: f[0], Kind: f[1], Name: f[2]}
	}
	for text := range want {
		given.Spec.Metrics = append(given.Spec.Metrics, autoscaling.MetricSpec{
			Type: autoscaling.ObjectMetricSourceType, Object: &autoscaling.ObjectMetricSource{DescribedObject: object(text)},
		})
	}
	w, err := cluster(t, "owners.yaml").Read(t.Context(), "chat", "hpa", &given, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range want {
		of, err := w.objectOf(object(text))
		if err != nil {
			t.Error(err)
		}
		pods, err := w.adapter.PodsOf(t.Context(), of)
		got := fmt.Sprint(pods)
		if scale, err := w.adapter.Scales.Scale(t.Context(), of.Resource, "chat", of.Ref.Name); err == nil && scale.Zero() {
			got += " at zero"
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || strings.HasPrefix(want, "[") && got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for pod, want := range map[string]bool{"a": true, "leaving": false, "unknown": false} {
		if _, lives := w.adapter.Pods.Lives("chat", pod); lives != want {
			t.Errorf("pod %s lives: %t", pod, lives)
		}
	}
}
