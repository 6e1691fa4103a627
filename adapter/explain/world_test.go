package explain

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	autoscaling "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"
)

// standing is what stands above pods, by API path. The leader of a LeaderWorkerSet
// controls its workers' StatefulSet; one pod is leaving, one has ended.
const standing = `
/api/v1/namespaces/chat/pods:
  items:
  - metadata: {name: a, labels: {app: vllm}, ownerReferences: [&rs {apiVersion: apps/v1, kind: ReplicaSet, name: vllm-1, uid: r, controller: true}]}
  - metadata: {name: b, labels: {app: vllm}, ownerReferences: [*rs]}
  - metadata: {name: leaving, labels: {app: vllm}, deletionTimestamp: "2026-01-01T00:00:00Z", ownerReferences: [*rs]}
  - metadata: {name: ended, labels: {app: vllm}, ownerReferences: [*rs]}
    status: {phase: Failed}
  - metadata: {name: orphan, labels: {app: vllm}}
  - metadata: {name: group-0, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: group, uid: s, controller: true}]}
  - metadata: {name: group-0-1, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: group-0, uid: t, controller: true}]}
/apis/apps/v1/namespaces/chat/replicasets:
  apiVersion: apps/v1
  kind: ReplicaSetList
  items: [{metadata: {name: vllm-1, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: vllm, uid: d, controller: true}]}}]
/apis/apps/v1/namespaces/chat/statefulsets:
  apiVersion: apps/v1
  kind: StatefulSetList
  items:
  - metadata: {name: group, ownerReferences: [{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, name: group, uid: l, controller: true}]}
  - metadata: {name: group-0, ownerReferences: [{apiVersion: v1, kind: Pod, name: group-0, uid: p, controller: true}]}
/apis/apps/v1/namespaces/chat/deployments: {apiVersion: apps/v1, kind: DeploymentList, items: []}
/apis/batch/v1/namespaces/chat/jobs: {apiVersion: batch/v1, kind: JobList, items: []}
/api/v1/namespaces/chat/services/web: {spec: {selector: {app: vllm}}}
/api/v1/namespaces/chat/services/bare: {spec: {}}
/apis/apps/v1/namespaces/chat/deployments/vllm/scale: {apiVersion: autoscaling/v1, kind: Scale, spec: {replicas: 2}, status: {replicas: 2, selector: app=vllm}}
/apis/apps/v1/namespaces/chat/deployments/idle/scale: {apiVersion: autoscaling/v1, kind: Scale, spec: {replicas: 0}, status: {replicas: 0, selector: app=idle}}
/apis/apps/v1/namespaces/chat/deployments/lost/scale: {apiVersion: autoscaling/v1, kind: Scale, spec: {replicas: 2}, status: {replicas: 0, selector: app=lost}}
/apis/example.io/v1/namespaces/chat/models/m/scale: {apiVersion: autoscaling/v1, kind: Scale, spec: {replicas: 2}, status: {replicas: 2, selector: app=vllm}}
/apis/example.io/v1/namespaces/chat/models/loose/scale: {apiVersion: autoscaling/v1, kind: Scale, spec: {replicas: 2}, status: {replicas: 2}}
`

// TestPodsOfObjects: what is read of the cluster gives the pods of each object that a
// metric may be about, as the adapter's informers do, which are of the same type.
func TestPodsOfObjects(t *testing.T) {
	answers := map[string]json.RawMessage{}
	if err := yaml.Unmarshal([]byte(standing), &answers); err != nil {
		t.Fatal(err)
	}
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
	w, err := clients(t, apiServer(t, answers)).Read(t.Context(), "chat", "hpa", &given, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range want {
		thing := asked{object: object(text)}.thing("chat")
		pods, err := w.answerer().PodsOf(t.Context(), thing)
		got := fmt.Sprint(pods)
		if scale, _ := w.Scale(t.Context(), thing.Resource, "chat", thing.Ref.Name); scale.Zero {
			got += " at zero"
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || strings.HasPrefix(want, "[") && got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for pod, want := range map[string]bool{"a": true, "leaving": false, "ended": false, "unknown": false} {
		if _, lives := w.listed.Lives("chat", pod); lives != want {
			t.Errorf("pod %s lives: %t", pod, lives)
		}
	}
}
