package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata/fake"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// pair is one cluster as the adapter's provider sees it, and as we do.
type pair struct {
	tables fixedTables
	theirs *provider.Provider
	ours   World
}

// fixedTables are what the provider is given for a cache.
type fixedTables map[string]cache.View

func (f fixedTables) Has(rule string) bool { _, ok := f[rule]; return ok }
func (f fixedTables) Rules() []signal.Rule { return nil }
func (f fixedTables) View(_ context.Context, rule string) (cache.View, error) {
	if v, ok := f[rule]; ok {
		return v, nil
	}
	return cache.View{}, cache.ErrUnknownRule
}

// sizes are the scales of the namespace's objects.
type sizes map[string]provider.Scale

func (s sizes) Scale(_ context.Context, r schema.GroupVersionResource, _, name string) (provider.Scale, error) {
	if scale, ok := s[r.Resource+"/"+name]; ok {
		return scale, nil
	}
	return provider.Scale{}, errors.New("not found")
}

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
	return map[string]map[string]string{"web": {"app": "vllm"}, "bare": nil, "nobody": {"app": "nobody"}}
}

// objects are all that a metric may be about.
func objects() []autoscaling.CrossVersionObjectReference {
	var all []autoscaling.CrossVersionObjectReference
	for _, o := range []string{
		"apps/v1 Deployment vllm", "apps/v1 Deployment idle", "apps/v1 Deployment lost", "apps/v1 Deployment none", "apps/v1 StatefulSet group",
		"apps/v1 StatefulSet group-0", lws + " LeaderWorkerSet group", "example.io/v1 Model m", "example.io/v1 Model idle", "example.io/v1 Model loose",
		"example.io/v1 Service web", "v1 Service web", "v1 Service bare", "v1 Service nobody", "v1 Service gone", "v1 Pod a", "v1 Pod orphan", "v1 Pod nobody",
		"v1 Namespace chat",
	} {
		f := strings.Fields(o)
		all = append(all, autoscaling.CrossVersionObjectReference{APIVersion: f[0], Kind: f[1], Name: f[2]})
	}
	return all
}

var scales = map[string]scale{
	"deployments/vllm": {replicas: 2, status: 2, selector: labels.SelectorFromSet(labels.Set{"app": "vllm"})},
	"deployments/idle": {selector: labels.SelectorFromSet(labels.Set{"app": "idle"})},
	"deployments/lost": {replicas: 2, selector: labels.SelectorFromSet(labels.Set{"app": "lost"})},
	"models/m":         {replicas: 2, status: 2, selector: labels.SelectorFromSet(labels.Set{"app": "vllm"})},
	"models/idle":      {selector: labels.SelectorFromSet(labels.Set{"app": "idle"})},
	"models/loose":     {replicas: 2, status: 2},
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
	for of, s := range scales {
		group := "/apis/apps/v1"
		if strings.HasPrefix(of, "models/") {
			group = "/apis/example.io/v1"
		}
		status := map[string]any{"replicas": s.status}
		if s.selector != nil {
			status["selector"] = s.selector.String()
		}
		answers[group+ns+of+"/scale"] = raw(map[string]any{
			"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": s.replicas}, "status": status,
		})
	}
	return answers
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{tables: fixedTables{}}

	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var all []runtime.Object
	for _, o := range standing() {
		all = append(all, o)
	}
	client := fake.NewSimpleMetadataClient(scheme, all...)
	var kube []runtime.Object
	for name, selector := range services() {
		kube = append(kube, &core.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name}, Spec: core.ServiceSpec{Selector: selector}})
	}
	pods := must[*provider.Informers](t)(provider.NewInformers(client))
	above := must[*provider.Hierarchy](t)(provider.NewHierarchy(pods, client, kubefake.NewClientset(kube...)))
	pods.Start(t.Context().Done())
	above.Start(t.Context().Done())
	await.For(t, time.Minute, "the informers", func() error { return errors.Join(pods.Ready(), above.Ready()) })
	known := sizes{}
	for of, s := range scales {
		known[of] = provider.Scale{Selector: s.selector, Zero: s.replicas == 0 && s.status == 0}
	}
	mapper := apimeta.NewDefaultRESTMapper(nil)
	for _, o := range objects() {
		mapper.Add(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind), apimeta.RESTScopeNamespace)
	}
	p.theirs = must[*provider.Provider](t)(provider.New(p.tables, pods, known, mapper, prometheus.NewRegistry()))
	p.theirs.Use(provider.Extra{Above: above})

	target := objects()[0]
	given := autoscaling.HorizontalPodAutoscaler{Spec: autoscaling.HorizontalPodAutoscalerSpec{ScaleTargetRef: target, MaxReplicas: 9}}
	for _, o := range objects() {
		given.Spec.Metrics = append(given.Spec.Metrics, autoscaling.MetricSpec{
			Type: autoscaling.ObjectMetricSourceType, Object: &autoscaling.ObjectMetricSource{DescribedObject: o},
		})
	}
	c := clients(t, apiServer(t, apiAnswers(t)))
	p.ours = must[World](t)(c.Read(t.Context(), "chat", "hpa", &given))
	if err := c.Above(t.Context(), &p.ours); err != nil {
		t.Fatal(err)
	}
	return p
}

// ask asks the provider as the HPA controller would.
func (p *pair) ask(t *testing.T, a asked) (one *int64, pods map[string]int64, err error) {
	if a.kind == autoscaling.ExternalMetricSourceType {
		list, err := p.theirs.GetExternalMetric(t.Context(), "chat", a.selector, cma.ExternalMetricInfo{Metric: a.name})
		if err != nil {
			return nil, nil, err
		}
		milli := list.Items[0].Value.MilliValue()
		return &milli, nil, nil
	}
	info := cma.CustomMetricInfo{GroupResource: schema.GroupResource{Resource: "pods"}, Namespaced: true, Metric: a.name}
	if a.kind == autoscaling.PodsMetricSourceType {
		list, err := p.theirs.GetMetricBySelector(t.Context(), "chat", p.ours.Selector, info, a.selector)
		if err != nil {
			return nil, nil, err
		}
		pods = map[string]int64{}
		for _, item := range list.Items {
			pods[item.DescribedObject.Name] = item.Value.MilliValue()
		}
		return nil, pods, nil
	}
	gvr, _ := apimeta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(a.object.APIVersion, a.object.Kind))
	info.GroupResource = gvr.GroupResource()
	name := types.NamespacedName{Namespace: "chat", Name: a.object.Name}
	if a.object.Kind == "Namespace" {
		name, info.Namespaced = types.NamespacedName{Name: "chat"}, false
	}
	v, err := p.theirs.GetMetricByName(t.Context(), name, info, a.selector)
	if err != nil {
		return nil, nil, err
	}
	milli := v.Value.MilliValue()
	return &milli, nil, nil
}

// The provider's decisions are repeated here, so that explain needs no adapter;
// this keeps the two from drifting apart.
func TestAnswersAreTheProviders(t *testing.T) {
	p := newPair(t)
	random := rand.New(rand.NewPCG(1, 2))
	var good, bad int
	for range 60 {
		for _, rule := range sameRules() {
			now := time.Now()
			reading := signal.Reading{Evaluated: now, Now: now}
			vector := randomVector(random, now)
			var failure error
			if random.IntN(4) == 0 {
				failure = prom.ErrUnavailable
			}
			var every []signal.Sample
			for _, s := range vector {
				every = append(every, signal.NewSample(s.Labels.All(), s.Value))
			}
			theirs, _ := signal.NewTable(rule).Read(every, reading)
			ours, _ := signal.NewTable(rule).Read(within(vector, "chat"), reading)
			p.tables[rule.Name] = cache.View{Table: theirs, Failure: failure}
			for _, a := range everyRequest(rule.Name) {
				one, pods, err := p.ask(t, a)
				got := p.ours.answer(a, ours, failure, now)
				if said := differ(got, one, pods, err); said != "" {
					t.Errorf("%s %s: %s", a.String(), a.object.Name, said)
				}
				if err == nil {
					good++
				} else {
					bad++
				}
			}
		}
	}
	if good < 1000 || bad < 1000 {
		t.Errorf("%d answers and %d errors compare little", good, bad)
	}
}

// sameRules are one about servers, one about holders, and two of a user's own
// that declare a value for nothing.
func sameRules() []signal.Rule {
	var all []signal.Rule
	for _, r := range signal.Builtin(time.Minute) {
		if r.Name == "queue_depth" || r.Name == "gpu_busy" {
			r.Exporters = nil
			all = append(all, r)
		}
	}
	none := 0.0
	for _, subject := range []signal.Subject{signal.Namespace, signal.Target} {
		all = append(all, signal.Rule{
			Name: "own_" + string(subject), Subject: subject, Sources: []signal.Source{{Metric: "m"}}, Duplicates: signal.Max,
			PerPod: signal.Sum, PerWorkload: signal.Sum, Maximum: 1e9, MaxAge: time.Minute, AtZero: &none, Activation: 5,
		})
	}
	return all
}

func randomVector(random *rand.Rand, now time.Time) prom.Vector {
	var v prom.Vector
	for _, ns := range []string{"chat", "other"} {
		for _, pod := range []string{"a", "b", "leaving", "orphan", "ended", "group-0", "group-0-1", "stranger", ""} {
			if random.IntN(5) < 2 {
				continue
			}
			ls := map[string]string{"namespace": ns, "model": fmt.Sprint(random.IntN(2))}
			if pod != "" {
				ls["pod"] = pod
			}
			age := []time.Duration{5 * time.Second, 20 * time.Second, 5 * time.Minute}[random.IntN(3)]
			value := float64(random.IntN(100)) / 8
			if random.IntN(12) == 0 {
				value = -1
			}
			for part, n := range map[string]float64{"v0": value, "t0": float64(now.Add(-age).UnixMilli()) / 1000} {
				ls[signal.PartLabel] = part
				v = append(v, prom.Sample{Labels: prom.FromMap(ls), Value: n, Time: now})
			}
		}
	}
	return v
}

func everyRequest(name string) []asked {
	var all []asked
	for _, s := range []labels.Selector{labels.Everything(), labels.SelectorFromSet(labels.Set{"model": "1"})} {
		all = append(all,
			asked{kind: autoscaling.ExternalMetricSourceType, name: name, selector: s},
			asked{kind: autoscaling.PodsMetricSourceType, name: name, selector: s})
		for _, o := range objects() {
			all = append(all, asked{kind: autoscaling.ObjectMetricSourceType, name: name, selector: s, object: o})
		}
	}
	return all
}

// differ says what is not the same; "" if all is. Ages, which go on, are left
// out of the sentences, and so is what only one of the two adds to the end.
func differ(got answer, one *int64, pods map[string]int64, err error) string {
	if err != nil {
		var theirs apierrors.APIStatus
		var ours *refusal
		if !errors.As(err, &theirs) || !errors.As(got.Error, &ours) || int(theirs.Status().Code) != ours.code {
			return fmt.Sprintf("the provider says %v, we say %v, %v", err, got.Error, got.Values)
		}
		first := func(s string) string {
			s, _, _ = strings.Cut(s, "; ")
			s, _, _ = strings.Cut(s, "selector is unknown: ") // and then the client's own words
			return s
		}
		if first(err.Error()) != first(ours.text) {
			return fmt.Sprintf("the provider says %q, we say %q", err, ours.text)
		}
		return ""
	}
	if got.Error != nil {
		return fmt.Sprintf("the provider has %v %v, we say %v", one, pods, got.Error)
	}
	if one != nil {
		pods = map[string]int64{"": *one}
	}
	ours := got.Pods
	if ours == nil {
		ours = map[string]int64{"": got.Values[0]}
	}
	if fmt.Sprint(pods) != fmt.Sprint(ours) {
		return fmt.Sprintf("the provider has %v, we have %v", pods, ours)
	}
	return ""
}
