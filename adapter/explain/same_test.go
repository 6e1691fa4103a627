package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"

	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/internal/await"
)

func owner(apiVersion, kind, name string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: &yes}}
}

const lws = "leaderworkerset.x-k8s.io/v1"

// standing lists pods, and what stands above them: by kind, name, label app
// and owner. The leader of a LeaderWorkerSet controls its workers' StatefulSet.
func standing() []*metav1.PartialObjectMetadata {
	thing := func(apiVersion, kind, name, app string, owners []metav1.OwnerReference) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name, Labels: map[string]string{"app": app}, OwnerReferences: owners},
		}
	}
	rs := owner("apps/v1", "ReplicaSet", "vllm-1")
	leaving := thing("v1", "Pod", "leaving", "vllm", rs)
	leaving.DeletionTimestamp, leaving.Finalizers = &metav1.Time{Time: time.Now()}, []string{"x"}
	return []*metav1.PartialObjectMetadata{
		thing("v1", "Pod", "a", "vllm", rs), thing("v1", "Pod", "b", "vllm", rs), leaving,
		thing("v1", "Pod", "orphan", "vllm", nil),
		thing("v1", "Pod", "group-0", "group", owner("apps/v1", "StatefulSet", "group")),
		thing("v1", "Pod", "group-0-1", "group", owner("apps/v1", "StatefulSet", "group-0")),
		thing("apps/v1", "ReplicaSet", "vllm-1", "vllm", owner("apps/v1", "Deployment", "vllm")),
		thing("apps/v1", "StatefulSet", "group", "group", owner(lws, "LeaderWorkerSet", "group")),
		thing("apps/v1", "StatefulSet", "group-0", "group", owner("v1", "Pod", "group-0")),
	}
}

func services() map[string]map[string]string {
	return map[string]map[string]string{"web": {"app": "vllm"}, "bare": nil, "unknown": {"app": "unknown"}}
}

// objects are all that a metric may be about.
func objects() []autoscaling.CrossVersionObjectReference {
	var all []autoscaling.CrossVersionObjectReference
	for _, o := range []string{
		"apps/v1 Deployment vllm", "apps/v1 Deployment idle", "apps/v1 Deployment lost", "apps/v1 Deployment none", "apps/v1 StatefulSet group",
		"apps/v1 StatefulSet group-0", lws + " LeaderWorkerSet group", "example.io/v1 Model m", "example.io/v1 Model idle", "example.io/v1 Model loose",
		"example.io/v1 Service web", "v1 Service web", "v1 Service bare", "v1 Service unknown", "v1 Service gone",
	} {
		f := strings.Fields(o)
		all = append(all, autoscaling.CrossVersionObjectReference{APIVersion: f[0], Kind: f[1], Name: f[2]})
	}
	return all
}

// sizes are the scales of objects: replicas wanted, replicas there and the
// label app of the selector; "" for none.
var sizes = map[string]struct {
	replicas, status int32
	app              string
}{
	"deployments/vllm": {2, 2, "vllm"}, "deployments/idle": {0, 0, "idle"}, "deployments/lost": {2, 0, "lost"},
	"models/m": {2, 2, "vllm"}, "models/idle": {0, 0, "idle"}, "models/loose": {2, 2, ""},
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// apiAnswers is the cluster as an API server shows it. It has one more pod,
// which has ended: the adapter does not ask for those.
func apiAnswers(t *testing.T) map[string]json.RawMessage {
	raw := func(v any) json.RawMessage { return must[[]byte](t)(json.Marshal(v)) }
	pods, sets, stateful := core.PodList{}, appsv1.ReplicaSetList{}, appsv1.StatefulSetList{}
	ended := core.Pod{Status: core.PodStatus{Phase: core.PodFailed}}
	ended.Name, ended.Labels, ended.OwnerReferences = "ended", map[string]string{"app": "vllm"}, owner("apps/v1", "ReplicaSet", "vllm-1")
	pods.Items = append(pods.Items, ended)
	for _, o := range standing() {
		switch o.Kind {
		case "Pod":
			pods.Items = append(pods.Items, core.Pod{ObjectMeta: o.ObjectMeta})
		case "ReplicaSet":
			sets.Items = append(sets.Items, appsv1.ReplicaSet{ObjectMeta: o.ObjectMeta})
		case "StatefulSet":
			stateful.Items = append(stateful.Items, appsv1.StatefulSet{ObjectMeta: o.ObjectMeta})
		}
	}
	const ns = "/namespaces/chat/"
	answers := map[string]json.RawMessage{
		"/api/v1" + ns + "pods": raw(pods), "/apis/apps/v1" + ns + "replicasets": raw(sets), "/apis/apps/v1" + ns + "statefulsets": raw(stateful),
		"/apis/apps/v1" + ns + "deployments": raw(appsv1.DeploymentList{}), "/apis/batch/v1" + ns + "jobs": raw(metav1.List{}),
	}
	for name, selector := range services() {
		answers["/api/v1"+ns+"services/"+name] = raw(core.Service{Spec: core.ServiceSpec{Selector: selector}})
	}
	for of, s := range sizes {
		group := "/apis/apps/v1"
		if strings.HasPrefix(of, "models/") {
			group = "/apis/example.io/v1"
		}
		status := map[string]any{"replicas": s.status}
		if s.app != "" {
			status["selector"] = "app=" + s.app
		}
		answers[group+ns+of+"/scale"] = raw(map[string]any{
			"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": s.replicas}, "status": status,
		})
	}
	return answers
}

// TestTheWorldIsWhatTheInformersSay: explain finds the pods of every object that
// the adapter, with its informers, finds.
func TestTheWorldIsWhatTheInformersSay(t *testing.T) {
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var all, kube []runtime.Object
	for _, o := range standing() {
		all = append(all, o)
	}
	for name, selector := range services() {
		kube = append(kube, &core.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name}, Spec: core.ServiceSpec{Selector: selector}})
	}
	client := fake.NewSimpleMetadataClient(scheme, all...)
	pods := must[*provider.Informers](t)(provider.NewInformers(client))
	above := must[*provider.Hierarchy](t)(provider.NewHierarchy(pods, client, kubefake.NewClientset(kube...)))
	pods.Start(t.Context().Done())
	above.Start(t.Context().Done())
	await.For(t, time.Minute, "the informers", func() error { return errors.Join(pods.Ready(), above.Ready()) })
	theirs := provider.Answerer{Pods: pods, Above: above, Scales: provider.NewScales(clients(t, apiServer(t, apiAnswers(t))).Dynamic)}

	given := autoscaling.HorizontalPodAutoscaler{Spec: autoscaling.HorizontalPodAutoscalerSpec{ScaleTargetRef: objects()[0], MaxReplicas: 9}}
	for _, o := range objects() {
		given.Spec.Metrics = append(given.Spec.Metrics, autoscaling.MetricSpec{
			Type: autoscaling.ObjectMetricSourceType, Object: &autoscaling.ObjectMetricSource{DescribedObject: o},
		})
	}
	c := clients(t, apiServer(t, apiAnswers(t)))
	w := must[World](t)(c.Read(t.Context(), "chat", "hpa", &given))
	if err := c.Above(t.Context(), &w); err != nil {
		t.Fatal(err)
	}
	reported := func(r provider.Answerer, o autoscaling.CrossVersionObjectReference) string {
		thing := asked{object: o}.thing("chat")
		found, err := r.PodsOf(t.Context(), thing)
		text, _, _ := strings.Cut(fmt.Sprint(err), "selector is unknown: ") // and then the client's own words
		scale, _ := r.Scales.Scale(t.Context(), thing.Resource, "chat", o.Name)
		return fmt.Sprintf("%v, %s, at zero %t", found, text, scale.Zero)
	}
	for _, o := range objects() {
		if got, want := reported(w.answerer(), o), reported(theirs, o); got != want {
			t.Errorf("%s %s %s: explain says %s; the adapter %s", o.APIVersion, o.Kind, o.Name, got, want)
		}
	}
	for _, pod := range []string{"a", "leaving", "ended", "unknown"} {
		_, here := w.answerer().Pods.Lives("chat", pod)
		if _, there := pods.Lives("chat", pod); here != there {
			t.Errorf("pod %s there: %t", pod, here)
		}
	}
}
