package provider

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
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

// cluster has Deployment chat/vllm with pods a and b through a ReplicaSet, one
// more being deleted, StatefulSet chat/db with pod db-0, Deployment
// chat/empty, and a pod "a" in another namespace.
func cluster(t testing.TB) *Informers {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	rs := controller("apps/v1", "ReplicaSet", "vllm-1")
	gone := meta("v1", "Pod", "chat", "gone", rs)
	gone.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	gone.Finalizers = []string{"x"}
	db := meta("v1", "Pod", "chat", "db-0", controller("apps/v1", "StatefulSet", "db"))
	db.Labels = map[string]string{"app": "db"}
	client := fake.NewSimpleMetadataClient(scheme,
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
	informers, err := NewInformers(client)
	if err != nil {
		t.Fatal(err)
	}
	if err := informers.Ready(); err == nil {
		t.Fatal("ready before the lists are there")
	}
	informers.Start(t.Context().Done())
	await.For(t, time.Minute, "the informers", informers.Ready)
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

// patience is how long the adapter below waits for Prometheus: longer than a busy
// machine keeps an answer of this process, for what is then kept from before is not what
// the test has scripted.
const patience = 3 * time.Second

// stack is the whole adapter below its API server, in front of a scripted
// Prometheus.
func stack(t testing.TB, server *promtest.Server) *Provider {
	t.Helper()
	return stackWaiting(t, server, patience)
}

// stackWaiting is stack with another limit for Prometheus' answers.
func stackWaiting(t testing.TB, server *promtest.Server, wait time.Duration) *Provider {
	t.Helper()
	client, err := prom.New(prom.Config{URL: server.URL, Timeout: wait})
	if err != nil {
		t.Fatal(err)
	}
	tables, err := cache.New(client, signal.Builtin(maxAge), cache.Options{
		Interval: 20 * time.Millisecond, IdleAfter: time.Hour, FirstWait: 2 * patience, Concurrency: 4,
	}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { tables.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	p, err := New(tables, cluster(t), nil, mapper(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func queue(namespace, pod string, value float64, extra ...string) promtest.Series {
	ls := map[string]string{"namespace": namespace, "pod": pod}
	for i := 0; i < len(extra); i += 2 {
		ls[extra[i]] = extra[i+1]
	}
	return promtest.Series{Labels: ls, Value: value}
}

// answer turns values into what Prometheus says to the rule's query: each
// with its scrape time, age ago.
func answer(age time.Duration, series ...promtest.Series) promtest.Response {
	now := time.Now()
	r := promtest.Response{At: now}
	for _, s := range series {
		value, scraped := map[string]string{signal.PartLabel: "v0"}, map[string]string{signal.PartLabel: "t0"}
		for k, v := range s.Labels {
			value[k], scraped[k] = v, v
		}
		r.Vector = append(r.Vector,
			promtest.Series{Labels: value, Value: s.Value},
			promtest.Series{Labels: scraped, Value: float64(now.Add(-age).UnixMilli()) / 1000})
	}
	return r
}

var (
	deployment = cma.CustomMetricInfo{GroupResource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Namespaced: true, Metric: "queue_depth"}
	podsInfo   = cma.CustomMetricInfo{GroupResource: schema.GroupResource{Resource: "pods"}, Namespaced: true, Metric: "queue_depth"}
	vllm       = types.NamespacedName{Namespace: "chat", Name: "vllm"}
	all        = labels.Everything()
)

func TestGoodValues(t *testing.T) {
	server := promtest.New(t)
	server.Script(func(string) promtest.Response {
		return answer(2*time.Second, queue("chat", "a", 3, "model_name", "m"), queue("chat", "b", 4.5, "model_name", "m"),
			queue("chat", "db-0", 100), queue("chat", "gone", 1000), queue("other", "a", 9))
	})
	p := stack(t, server)

	o, err := p.GetMetricByName(t.Context(), vllm, deployment, all)
	if err != nil {
		t.Fatal(err)
	}
	if got := o.Value.String(); got != "7500m" || o.DescribedObject.Kind != "Deployment" || o.DescribedObject.APIVersion != "apps/v1" {
		t.Errorf("Object: %s of %+v", got, o.DescribedObject)
	}
	if age := time.Since(o.Timestamp.Time); age < 2*time.Second || age > 2*time.Second+patience {
		t.Errorf("timestamp is %s ago, not the sample's", age)
	}
	if o.WindowSeconds == nil || *o.WindowSeconds != 0 {
		t.Errorf("window %v", o.WindowSeconds)
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

	namespace := cma.CustomMetricInfo{GroupResource: schema.GroupResource{Resource: "namespaces"}, Metric: "queue_depth"}
	if n, err := p.GetMetricByName(t.Context(), types.NamespacedName{Name: "other"}, namespace, all); err != nil || n.Value.Value() != 9 {
		t.Errorf("Namespace: %v, %v", n, err)
	}

	set := deployment
	set.GroupResource.Resource = "statefulsets"
	s, err := p.GetMetricByName(t.Context(), types.NamespacedName{Namespace: "chat", Name: "db"}, set, all)
	if err != nil || s.Value.Value() != 100 {
		t.Errorf("StatefulSet: %v, %v", s, err)
	}
}

func TestErrorsAreSentences(t *testing.T) {
	server := promtest.New(t)
	p := stack(t, server)
	unknown := deployment
	unknown.Metric = "nope"
	model := deployment
	model.GroupResource = schema.GroupResource{Group: "example.io", Resource: "models"}
	strange := deployment
	strange.GroupResource = schema.GroupResource{Group: "example.io", Resource: "unheard"}
	cases := []struct {
		name string
		info cma.CustomMetricInfo
		says string
	}{
		{"vllm", deployment, "no sample of queue_depth (vllm:num_requests_waiting or any of 11 other series) younger than 15s for 2 pods of Deployment chat/vllm; look at vllm:num_requests_waiting{namespace=\"chat\"}"},
		{"empty", deployment, "Deployment chat/empty has no pods"},
		{"vllm", unknown, "no signal is called nope"},
		{"m", model, "Model chat/m has no pods"},
		{"m", strange, "no resource is called unheard.example.io"},
	}
	for _, c := range cases {
		_, err := p.GetMetricByName(t.Context(), types.NamespacedName{Namespace: "chat", Name: c.name}, c.info, all)
		if !apierrors.IsNotFound(err) || err.Error() != c.says {
			t.Errorf("%v\nwant %s", err, c.says)
		}
	}
	namespace := cma.CustomMetricInfo{GroupResource: schema.GroupResource{Resource: "namespaces"}, Metric: "queue_depth"}
	if _, err := p.GetMetricByName(t.Context(), types.NamespacedName{Name: "chat"}, namespace, all); err == nil || !strings.HasSuffix(err.Error(), `{namespace="chat"}`) {
		t.Errorf("a namespace: %v", err)
	}
	if _, err := p.GetMetricBySelector(t.Context(), "chat", all, deployment, all); !apierrors.IsBadRequest(err) {
		t.Errorf("workloads by selector: %v", err)
	}
	server.Answer(promtest.Response{Status: 503, Body: "{}"})
	await.For(t, 30*time.Second, "Prometheus is said to be down", func() error {
		_, err := p.GetMetricByName(t.Context(), vllm, deployment, all)
		if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "HTTP 503") {
			return fmt.Errorf("not HTTP 503: %w", err)
		}
		return nil
	})
}

func TestDiscoveryListsEachSignal(t *testing.T) {
	p := stack(t, promtest.New(t))
	rules := len(signal.Builtin(maxAge))
	if got := len(p.ListAllMetrics()); got != rules*len(served()) {
		t.Errorf("%d custom metrics", got)
	}
	if got := len(p.ListAllExternalMetrics()); got != rules {
		t.Errorf("%d external metrics", got)
	}
}

type fixedScale Scale

func (s fixedScale) Scale(context.Context, schema.GroupVersionResource, string, string) (Scale, error) {
	return Scale(s), nil
}

func TestWorkloadsWithoutOwnedPodsUseTheirScalesSelector(t *testing.T) {
	server := promtest.New(t)
	server.Script(func(string) promtest.Response { return answer(0, queue("chat", "db-0", 5)) })
	p := stack(t, server)
	p.scales = fixedScale{Selector: labels.SelectorFromSet(labels.Set{"app": "db"})}
	model := deployment
	model.GroupResource = schema.GroupResource{Group: "example.io", Resource: "models"}
	v, err := p.GetMetricByName(t.Context(), types.NamespacedName{Namespace: "chat", Name: "m"}, model, all)
	if err != nil || v.Value.Value() != 5 {
		t.Errorf("%v, %v", v, err)
	}
}
