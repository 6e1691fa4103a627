package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promlabels "github.com/prometheus/prometheus/model/labels"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
)

const maxAge = 15 * time.Second

func controller(apiVersion, kind, name string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: &yes}}
}

func meta(apiVersion, kind, namespace, name string, owners []metav1.OwnerReference) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, OwnerReferences: owners, Labels: map[string]string{"app": "vllm"}},
	}
}

func metadataClient(t testing.TB, objects ...runtime.Object) *fake.FakeMetadataClient {
	t.Helper()
	scheme := fake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	return fake.NewSimpleMetadataClient(scheme, objects...)
}

// cluster has Deployment chat/vllm with pods a and b through a ReplicaSet, one
// more being deleted, StatefulSet chat/db with pod db-0, Deployment
// chat/empty, and a pod "a" in another namespace.
func cluster(t testing.TB) *Informers {
	t.Helper()
	rs := controller("apps/v1", "ReplicaSet", "vllm-1")
	gone := meta("v1", "Pod", "chat", "gone", rs)
	gone.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	gone.Finalizers = []string{"x"}
	db := meta("v1", "Pod", "chat", "db-0", controller("apps/v1", "StatefulSet", "db"))
	db.Labels = map[string]string{"app": "db"}
	client := metadataClient(t,
		meta("apps/v1", "ReplicaSet", "chat", "vllm-1", controller("apps/v1", "Deployment", "vllm")),
		meta("v1", "Pod", "chat", "a", rs), meta("v1", "Pod", "chat", "b", rs), gone, db,
		meta("v1", "Pod", "other", "a", nil),
	)
	var narrowed atomic.Int32
	client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if got := a.(clienttesting.ListAction).GetListRestrictions().Fields.String(); got != "status.phase!=Failed,status.phase!=Succeeded" {
			t.Errorf("lists pods with field selector %q: pods that have ended would count as silent", got)
		}
		narrowed.Add(1)
		return false, nil, nil
	})
	client.PrependReactor("list", "replicasets", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if got := a.(clienttesting.ListAction).GetListRestrictions().Fields.String(); got != "" {
			t.Errorf("lists ReplicaSets with field selector %q, which the API server refuses", got)
		}
		return false, nil, nil
	})
	informers, err := NewInformers(client, kubefake.NewSimpleClientset())
	require.NoError(t, err)
	if err := informers.Ready(); err == nil {
		t.Fatal("ready before the lists are there")
	}
	informers.Start(t.Context().Done())
	await.For(t, time.Minute, "the informers", func() error {
		if !informers.services.HasSynced() {
			return errors.New("the services are not known")
		}
		return informers.synced(slices.Collect(maps.Keys(informers.kinds))...)
	})
	if narrowed.Load() == 0 {
		t.Error("no list of pods was seen")
	}
	return informers
}

func mapper() apimeta.RESTMapper {
	m := apimeta.NewDefaultRESTMapper(nil)
	m.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), apimeta.RESTScopeNamespace)
	m.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), apimeta.RESTScopeNamespace)
	m.Add(schema.GroupVersionKind{Group: "example.io", Version: "v1", Kind: "Model"}, apimeta.RESTScopeNamespace)
	return m
}

// now is the present time of a provider from knowing.
var now = time.Unix(1_700_000_000, 0)

// sample is a value and its scrape time, as a rule's query returns them.
func sample(value float64, scraped time.Time, pairs ...string) []signal.Sample {
	ls := promlabels.FromStrings(pairs...)
	return []signal.Sample{
		{Part: "v0", Labels: ls, Value: value}, {Part: "t0", Labels: ls, Value: float64(scraped.UnixMilli()) / 1000},
	}
}

func queue(namespace, pod string, value float64, extra ...string) []signal.Sample {
	return sample(value, now.Add(-2*time.Second), append([]string{"namespace", namespace, "pod", pod}, extra...)...)
}

// tableOf is a rule's table after an answer.
func tableOf(r signal.Rule, at time.Time, samples ...[]signal.Sample) *signal.Table {
	table, _ := signal.NewTable(r).Read(slices.Concat(samples...), signal.Reading{Evaluated: at, Now: at})
	return table
}

func queueDepth() signal.Rule {
	all := signal.Builtin(maxAge)
	return all[slices.IndexFunc(all, func(r signal.Rule) bool { return r.Name == "queue_depth" })]
}

// knowing returns a provider of cluster's pods with one answer to queue_depth.
func knowing(t *testing.T, samples ...[]signal.Sample) *Provider {
	t.Helper()
	p := New(fixedTables{"queue_depth": {Table: tableOf(queueDepth(), now, samples...)}}, cluster(t), fixedScale{Replicas: 1}, mapper(), prometheus.NewRegistry())
	p.Now = func() time.Time { return now }
	return p
}

var (
	deployment = of("apps", "deployments")
	podsInfo   = of("", "pods")
	vllm       = types.NamespacedName{Namespace: "chat", Name: "vllm"}
	all        = labels.Everything()
)

func TestGoodValues(t *testing.T) {
	p := knowing(t, queue("chat", "a", 3, "model_name", "m"), queue("chat", "b", 4.5, "model_name", "m"),
		queue("chat", "db-0", 100), queue("chat", "gone", 1000), queue("other", "a", 9))
	o, err := p.GetMetricByName(t.Context(), vllm, deployment, all)
	require.NoError(t, err)
	if got := o.Value.String(); got != "7500m" || o.DescribedObject.Kind != "Deployment" || o.DescribedObject.APIVersion != "apps/v1" {
		t.Errorf("Object: %s of %+v", got, o.DescribedObject)
	}
	list, err := p.GetMetricBySelector(t.Context(), "chat", labels.SelectorFromSet(labels.Set{"app": "vllm"}), podsInfo, all)
	if err != nil || len(list.Items) != 2 || list.Items[0].DescribedObject.Name != "a" || list.Items[1].Value.MilliValue() != 4500 {
		t.Errorf("Pods: %+v, %v", list, err)
	}
	selector := labels.SelectorFromSet(labels.Set{"model_name": "m"})
	e, err := p.GetExternalMetric(t.Context(), "chat", selector, cma.ExternalMetricInfo{Metric: "queue_depth"})
	if err != nil || len(e.Items) != 1 || e.Items[0].Value.MilliValue() != 7500 || e.Items[0].MetricLabels["model_name"] != "m" {
		t.Errorf("External: %+v, %v", e, err)
	}
	if n, err := p.GetMetricByName(t.Context(), types.NamespacedName{Name: "other"}, of("", "namespaces"), all); err != nil || n.Value.Value() != 9 {
		t.Errorf("Namespace: %v, %v", n, err)
	}
	s, err := p.GetMetricByName(t.Context(), types.NamespacedName{Namespace: "chat", Name: "db"}, of("apps", "statefulsets"), all)
	if err != nil || s.Value.Value() != 100 {
		t.Errorf("StatefulSet: %v, %v", s, err)
	}
	// A kind that owns no pods has the pods of its scale's selector.
	p.Scales = fixedScale{Selector: labels.SelectorFromSet(labels.Set{"app": "db"})}
	m, err := p.GetMetricByName(t.Context(), types.NamespacedName{Namespace: "chat", Name: "m"}, of("example.io", "models"), all)
	if err != nil || m.Value.Value() != 100 {
		t.Errorf("Model: %v, %v", m, err)
	}
}

// of is queue_depth of a kind of object.
func of(group, resource string) cma.CustomMetricInfo {
	return cma.CustomMetricInfo{GroupResource: schema.GroupResource{Group: group, Resource: resource}, Namespaced: resource != "namespaces", Metric: "queue_depth"}
}

func TestErrorsAreSentences(t *testing.T) {
	p := knowing(t)
	unknown := deployment
	unknown.Metric = "nope"
	cases := []struct {
		name string
		info cma.CustomMetricInfo
		says string
	}{
		{"vllm", deployment, "no sample of queue_depth (vllm:num_requests_waiting or any of 28 other series) younger than 15s for 2 pods of Deployment chat/vllm; look at vllm:num_requests_waiting{namespace=\"chat\"}"},
		{"empty", deployment, "Deployment chat/empty has no pods"},
		{"vllm", unknown, "no signal is called nope; the adapter serves queue_depth"},
		{"m", of("example.io", "models"), "Model chat/m has no pods"},
		{"m", of("example.io", "unheard"), "no resource is called unheard.example.io"},
	}
	for _, c := range cases {
		_, err := p.GetMetricByName(t.Context(), types.NamespacedName{Namespace: "chat", Name: c.name}, c.info, all)
		if !apierrors.IsNotFound(err) || err.Error() != c.says {
			t.Errorf("%v\nwant %s", err, c.says)
		}
	}
	if _, err := p.GetMetricByName(t.Context(), types.NamespacedName{Name: "chat"}, of("", "namespaces"), all); err == nil || !strings.HasSuffix(err.Error(), `{namespace="chat"}`) {
		t.Errorf("a namespace: %v", err)
	}
	if _, err := p.GetMetricBySelector(t.Context(), "chat", all, deployment, all); !apierrors.IsBadRequest(err) {
		t.Errorf("workloads by selector: %v", err)
	}
	down := p.tables.(fixedTables)["queue_depth"]
	down.Failure = fmt.Errorf("%w: HTTP 503", prom.ErrUnavailable)
	p.tables.(fixedTables)["queue_depth"] = down
	if _, err := p.GetMetricByName(t.Context(), vllm, deployment, all); !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "HTTP 503") {
		t.Errorf("Prometheus is down: %v", err)
	}
}

// The most similar name comes first.
func TestNearest(t *testing.T) {
	names := []string{"gpu_busy", "queue_depth", "requests_running"}
	if got, want := Nearest("queue_dept", names), "the adapter serves queue_depth, gpu_busy, requests_running"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Nearest("x", nil); got != "the adapter serves none" {
		t.Error(got)
	}
}

func TestDiscoveryListsEachSignal(t *testing.T) {
	p := knowing(t)
	if got := len(p.ListAllMetrics()); got != len(served()) {
		t.Errorf("%d custom metrics", got)
	}
	if got := len(p.ListAllExternalMetrics()); got != 1 {
		t.Errorf("%d external metrics", got)
	}
}

type fixedScale Scale

func (s fixedScale) Scale(context.Context, schema.GroupVersionResource, string, string) (Scale, error) {
	return Scale(s), nil
}

// The rights in prometheus-adapter's own manifests (v0.12.0) suffice for pods. A metric that needs more rights is an
// error that names them.
func TestPodsNeedNoOtherRights(t *testing.T) {
	client := metadataClient(t, meta("v1", "Pod", "chat", "db-0", controller("apps/v1", "StatefulSet", "db")))
	client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		of := a.GetResource().GroupResource()
		return of.Resource != "pods", nil, apierrors.NewForbidden(of, "", nil)
	})
	informers, err := NewInformers(client, kubefake.NewSimpleClientset())
	require.NoError(t, err)
	informers.Start(t.Context().Done())
	await.For(t, time.Minute, "the pods", informers.Ready)
	if _, err := informers.Owned("chat", schema.GroupKind{Group: "apps", Kind: "Deployment"}, "vllm"); err == nil || !strings.Contains(err.Error(), "replicasets") {
		t.Error(err)
	}
	if pods, err := informers.Owned("chat", schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, "db"); err != nil || !slices.Equal(pods, []string{"db-0"}) {
		t.Errorf("%v, %v", pods, err)
	}
}
