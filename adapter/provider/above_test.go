package provider

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
)

// hierarchy has a LeaderWorkerSet of one group (leader and two workers), a
// JobSet of two jobs, an InferenceService over a Deployment, a ring of owners,
// and Services.
func hierarchy(t *testing.T) *Informers {
	t.Helper()
	const lws, jobset = "leaderworkerset.x-k8s.io/v1", "jobset.x-k8s.io/v1alpha2"
	client := metadataClient(t,
		meta("apps/v1", "StatefulSet", "chat", "big", controller(lws, "LeaderWorkerSet", "big")),
		meta("v1", "Pod", "chat", "big-0", controller("apps/v1", "StatefulSet", "big")),
		meta("apps/v1", "StatefulSet", "chat", "big-0", controller("v1", "Pod", "big-0")),
		meta("v1", "Pod", "chat", "big-0-1", controller("apps/v1", "StatefulSet", "big-0")),
		meta("v1", "Pod", "chat", "big-0-2", controller("apps/v1", "StatefulSet", "big-0")),
		meta("batch/v1", "Job", "chat", "train-a", controller(jobset, "JobSet", "train")),
		meta("batch/v1", "Job", "chat", "train-b", controller(jobset, "JobSet", "train")),
		meta("v1", "Pod", "chat", "train-a-x", controller("batch/v1", "Job", "train-a")),
		meta("v1", "Pod", "chat", "train-b-y", controller("batch/v1", "Job", "train-b")),
		meta("apps/v1", "Deployment", "chat", "kserve", controller("serving.kserve.io/v1beta1", "InferenceService", "kserve")),
		meta("apps/v1", "ReplicaSet", "chat", "kserve-1", controller("apps/v1", "Deployment", "kserve")),
		meta("v1", "Pod", "chat", "kserve-1-z", controller("apps/v1", "ReplicaSet", "kserve-1")),
		meta("apps/v1", "Deployment", "chat", "ring-a", controller("apps/v1", "StatefulSet", "ring-b")),
		meta("apps/v1", "StatefulSet", "chat", "ring-b", controller("apps/v1", "Deployment", "ring-a")),
		meta("apps/v1", "StatefulSet", "other", "foreign", controller(lws, "LeaderWorkerSet", "big")),
		meta("v1", "Pod", "other", "foreign-0", controller("apps/v1", "StatefulSet", "foreign")),
	)
	service := func(name string, selector map[string]string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name, Annotations: map[string]string{"big": "text"}},
			Spec:       corev1.ServiceSpec{Selector: selector, ClusterIP: "10.0.0.1"},
		}
	}
	h, err := NewInformers(client, kubefake.NewSimpleClientset(service("vllm", map[string]string{"app": "vllm"}), service("headless", nil)))
	require.NoError(t, err)
	ready := func() error {
		_, below := h.Owned("chat", schema.GroupKind{Kind: "Any"}, "x")
		_, services := h.Service("chat", "vllm")
		return errors.Join(below, services)
	}
	if ready() == nil {
		t.Error("ready before the lists are there")
	}
	h.Start(t.Context().Done())
	await.For(t, time.Minute, "the informers", ready)
	return h
}

func TestPodsFarBelow(t *testing.T) {
	h := hierarchy(t)
	for _, c := range []struct {
		group, kind, name string
		pods              []string
	}{
		{"leaderworkerset.x-k8s.io", "LeaderWorkerSet", "big", []string{"big-0", "big-0-1", "big-0-2"}},
		{"jobset.x-k8s.io", "JobSet", "train", []string{"train-a-x", "train-b-y"}},
		{"serving.kserve.io", "InferenceService", "kserve", []string{"kserve-1-z"}},
		{"example.io", "LeaderWorkerSet", "big", nil}, // of another group
		{"apps", "Deployment", "ring-a", nil},
		{"jobset.x-k8s.io", "JobSet", "none", nil},
	} {
		if got, err := h.Owned("chat", schema.GroupKind{Group: c.group, Kind: c.kind}, c.name); err != nil || !reflect.DeepEqual(got, c.pods) {
			t.Errorf("%s %s: %v, want %v, %v", c.kind, c.name, got, c.pods, err)
		}
	}
	if s, err := h.Service("chat", "vllm"); err != nil || s.String() != "app=vllm" {
		t.Errorf("Service vllm: %v, %v", s, err)
	}
	if s, err := h.Service("other", "vllm"); !apierrors.IsNotFound(err) {
		t.Errorf("a Service of another namespace: %v, %v", s, err)
	}
	stored, _, _ := h.services.GetIndexer().GetByKey("chat/vllm")
	if s := stored.(*corev1.Service); s.Spec.ClusterIP != "" || s.Annotations != nil {
		t.Errorf("kept more than the selector: %+v", s)
	}
}

// servicesOf has the Services of another.
type servicesOf struct {
	Pods
	services Pods
}

func (s servicesOf) Service(namespace, name string) (labels.Selector, error) {
	return s.services.Service(namespace, name)
}

func TestAServiceIsItsPods(t *testing.T) {
	p := knowing(t, queue("chat", "a", 3), queue("chat", "b", 4), queue("chat", "db-0", 100), queue("other", "a", 50))
	ask := func(name string) (int64, error) {
		v, err := p.GetMetricByName(t.Context(), types.NamespacedName{Namespace: "chat", Name: name}, of("", "services"), all)
		if err != nil {
			return 0, err
		}
		return v.Value.Value(), nil
	}
	if _, err := ask("vllm"); !apierrors.IsNotFound(err) {
		t.Errorf("without such a Service: %v", err)
	}
	p.Pods = servicesOf{p.Pods, hierarchy(t)}
	if v, err := ask("vllm"); v != 7 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	for name, says := range map[string]string{
		"headless": "Service chat/headless has no selector: it has no pods of its own", "none": "there is no Service chat/none",
	} {
		if _, err := ask(name); !apierrors.IsNotFound(err) || err.Error() != says {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// counting is a scale that counts its reads.
type counting struct {
	fixedScale
	n int
}

func (c *counting) Scale(ctx context.Context, r schema.GroupVersionResource, namespace, name string) (Scale, error) {
	c.n++
	return c.fixedScale.Scale(ctx, r, namespace, name)
}

// TestScaledToZeroIsNotLost: the value declared for no pods is given only by rules that declare one, and only to a
// workload whose scale is zero, not to one whose pods are gone.
func TestScaledToZeroIsNotLost(t *testing.T) {
	p := tenants(t)
	p.Pods = allPods{}
	scale := &counting{}
	p.Scales = scale
	tables := p.tables.(fixedTables)
	declared, undeclared := 0, 0
	for _, zero := range []bool{true, false} {
		scale.Replicas = map[bool]int32{true: 0, false: 1}[zero]
		for name, view := range tables {
			info := deployment
			info.Metric = name
			v, err := p.GetMetricByName(t.Context(), vllm, info, labels.Everything())
			at := view.Table.Rule().AtZero
			switch {
			case zero && at != nil:
				declared++
				if err != nil || v.Value.AsApproximateFloat64() != *at {
					t.Errorf("%s at zero: %v, %v, want %v", name, v, err, *at)
				}
			default:
				undeclared++
				if !apierrors.IsNotFound(err) {
					t.Errorf("%s, meant to be empty: %v: %v, %v", name, zero, v, err)
				}
			}
		}
	}
	if declared == 0 || undeclared == 0 {
		t.Errorf("%d rules declare a value at zero, %d answers had none: nothing to compare", declared, undeclared)
	}
	reads := scale.n
	p.Pods = allPods{"a"}
	_, _ = p.GetMetricByName(t.Context(), vllm, deployment, labels.Everything())
	if scale.n != reads {
		t.Error("the scale of a workload with pods was read")
	}
}

// A scale is cached for half a minute. Failures that are not about the object, such as the end of a request or a busy
// API server, are not cached.
func TestScalesAreKept(t *testing.T) {
	of := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	busy, gone := apierrors.NewTooManyRequests("busy", 1), apierrors.NewNotFound(of.GroupResource(), "x")
	ended, end := context.WithCancel(t.Context())
	end()
	synctest.Test(t, func(t *testing.T) {
		client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
		var fails error
		client.PrependReactor("get", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1)}}}, fails
		})
		scales := NewScales(client)
		for i, c := range []struct {
			ctx     context.Context
			after   time.Duration
			fails   error
			reads   int // until then
			refused bool
		}{
			{ended, 0, context.Canceled, 1, true}, {t.Context(), 0, busy, 2, true},
			{t.Context(), 4 * time.Second, nil, 2, true}, {t.Context(), 2 * time.Second, nil, 3, false},
			{t.Context(), 29 * time.Second, gone, 3, false}, {t.Context(), 2 * time.Second, gone, 4, true},
			{t.Context(), 29 * time.Second, nil, 4, true}, {t.Context(), 2 * time.Second, nil, 5, false},
		} {
			time.Sleep(c.after)
			fails = c.fails
			if _, err := scales.Scale(c.ctx, of, "chat", "x"); len(client.Actions()) != c.reads || (err != nil) != c.refused {
				t.Errorf("%d: %v, read %d times, want %d", i, err, len(client.Actions()), c.reads)
			}
		}
	})
}

func TestScaleOf(t *testing.T) {
	for text, want := range map[string]string{
		`{"spec": {"replicas": 0}, "status": {"replicas": 0, "selector": "app=x"}}`:      "true app=x",
		`{"status": {"selector": "app=x"}}`:                                              "true app=x",
		`{"spec": {"replicas": 1}, "status": {"replicas": 0, "selector": "app=x"}}`:      "false app=x",
		`{"spec": {"replicas": 0}, "status": {"replicas": 1, "selector": "app=x"}}`:      "false app=x",
		`{"spec": {"replicas": "none"}, "status": {"replicas": 0, "selector": "app=x"}}`: "error",
		`{"spec": {"replicas": 0}, "status": {"replicas": 0, "selector": ""}}`:           "true <nil>",
		`{"spec": {"replicas": 0}, "status": {"replicas": 0, "selector": "a in ("}}`:     "error",
	} {
		object := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(text), &object))
		s, err := scaleOf(object)
		got := fmt.Sprint(s.Zero(), " ", s.Selector)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}
