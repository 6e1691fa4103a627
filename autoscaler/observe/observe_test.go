package observe

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/kube/kubefake"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// world is the input of an Observer under test.
type world struct {
	t        *testing.T
	client   client.Client
	readings *Readings
	o        *Observer
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t}
	w.client = kubefake.New(kinds).WithObjects(objects...).Build()
	w.o = New(Options{
		Cluster: w.client, Readings: func() *Readings { return w.readings },
		Pools:     pools.Providers{GRPC: nodegroups.New(w.client, w.client), Scale: empty{}},
		ConfigMap: partition.DefaultConfigMap,
	})
	return w
}

// empty is a provider whose pools have size 0.
type empty struct{ pools.Provider }

func (empty) List(context.Context, *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return pools.Listing{}, nil
}

// at observes at a time after start, and checks that the result passes the planner's check.
func (w *world) at(after time.Duration) Observation {
	w.t.Helper()
	out, err := w.o.Observe(w.t.Context(), start.Add(after))
	require.NoError(w.t, err)
	if err := out.Check(); err != nil {
		w.t.Errorf("the snapshot does not pass its check: %v", err)
	}
	return out
}

func pool(name string) *v1alpha1.GPUNodePool {
	return &v1alpha1.GPUNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.GPUNodePoolSpec{
			Min: 1, Max: 4, PricePerHour: ptr.To(resource.MustParse("2.5")),
			Provider:  nodegroups.Of(name),
			ScaleDown: v1alpha1.ScaleDown{IdleAfter: &metav1.Duration{Duration: 10 * time.Minute}},
			Template: v1alpha1.NodeTemplate{
				Product: "NVIDIA-H100-80GB-HBM3", GPUs: 1,
				CPU: resource.MustParse("32"), Memory: resource.MustParse("256Gi"),
			},
			MIG: &v1alpha1.MIG{BootLayout: []map[string]int32{{"3g.40gb": 2}}, AllowedProfiles: []string{"3g.40gb", "1g.10gb"}},
		},
	}
}

// node is a ready H100 node of pool "p" that advertises resources.
func node(name string, offered corev1.ResourceList) *corev1.Node {
	list := corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("256Gi")}
	for k, v := range offered {
		list[k] = v
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)), Labels: map[string]string{
			v1alpha1.NodePoolLabel: "p", partition.PresentLabel: "true", partition.ProductLabel: "NVIDIA-H100-80GB-HBM3", partition.CountLabel: "1",
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}, {Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule},
			{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}, {Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{
			Allocatable: list,
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func halves(n int) corev1.ResourceList {
	return corev1.ResourceList{"nvidia.com/mig-3g.40gb": resource.MustParse(strconv.Itoa(n))}
}

func pod(name, on string, requests corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name, CreationTimestamp: metav1.NewTime(start.Add(-time.Minute))},
		Spec: corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: requests},
		}}},
	}
}

func series(value float64, labels ...string) prom.Sample {
	m := map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		m[labels[i]] = labels[i+1]
	}
	return prom.Sample{Labels: prom.FromMap(m), Value: value, Time: start}
}

// twoHalves are the samples of an exporter on node "n" with a GPU partitioned into halves;
// allocatedTo are the pods of instances 1, 2, ….
func twoHalves(age float64, allocatedTo ...string) Answers {
	a := Answers{
		Age:  prom.Vector{series(age, "node", "n")},
		Info: prom.Vector{series(1, "node", "n", "gpu", "0", "gpu_uuid", "GPU-1", "model", "NVIDIA H100 80GB HBM3", "mig", "true")},
	}
	for i, start := range []string{"0", "4"} {
		id := strconv.Itoa(i + 1)
		a.InstanceInfo = append(a.InstanceInfo, series(1, "node", "n", "gpu", "0", "gpu_uuid", "GPU-1",
			"gpu_instance_id", id, "profile", "3g.40gb", "start", start, "size", "4", "instance_uuid", "MIG-"+id))
	}
	for i, h := range allocatedTo {
		a.Allocated = append(a.Allocated, series(1, "node", "n", "gpu", "0", "gpu_uuid", "GPU-1", "gpu_instance_id", strconv.Itoa(i+1),
			"exported_namespace", "chat", "exported_pod", h, "namespace", "gpuscale-system", "pod", "exporter-x"))
	}
	return a
}

// TestBrokenConfigIsLoggedOnce: not in every reconcile.
func TestBrokenConfigIsLoggedOnce(t *testing.T) {
	w := newWorld(t, pool("p"), node("n", halves(2)), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: partition.DefaultConfigMap.Namespace, Name: partition.DefaultConfigMap.Name},
		Data:       map[string]string{partition.ConfigKey: "version: v9"},
	})
	var log bytes.Buffer
	w.o.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.at(0)
	w.at(time.Second)
	if n := strings.Count(log.String(), "mig-manager's config"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
}

// owned is a pod with a controller, on node "n".
func owned(name string, annotations ...string) *corev1.Pod {
	p := pod(name, "n", halves(1))
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: ptr.To(true)}}
	p.Labels, p.Annotations = map[string]string{"app": name}, map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		p.Annotations[annotations[i]] = annotations[i+1]
	}
	return p
}

// TestUnusedSince: a device that is allocated and measured idle is unused since then. With anything
// missing, it is unknown.
func TestUnusedSince(t *testing.T) {
	instance := func(value float64, more ...string) prom.Sample {
		return series(value, append([]string{"node", "n", "gpu", "0", "gpu_uuid", "GPU-1", "gpu_instance_id", "1"}, more...)...)
	}
	allocated := []string{"exported_namespace", "chat", "exported_pod", "a", "namespace", "gpuscale-system", "pod", "exporter-x"}
	base := func() Answers {
		a := twoHalves(1, "a")
		a.Idle = prom.Vector{instance(600, allocated...)}
		a.InstanceBusy = prom.Vector{instance(0)}
		a.SampleAge = prom.Vector{instance(2)}
		return a
	}
	for name, c := range map[string]struct {
		change func(*Answers)
		after  time.Duration
		want   time.Time
	}{
		"measured idle":               {want: start.Add(-600 * time.Second)},
		"still, later":                {after: 20 * time.Second, want: start.Add(-600 * time.Second)},
		"the measurements have ended": {after: 29 * time.Second},
		"the sample is old":           {change: func(a *Answers) { a.SampleAge[0].Value = 31 }},
		"its age is unknown":          {change: func(a *Answers) { a.SampleAge = nil }},
		"busy is unknown":             {change: func(a *Answers) { a.InstanceBusy = nil }},
		"the series is not there":     {change: func(a *Answers) { a.Idle = nil }},
		"it computes":                 {change: func(a *Answers) { a.Idle[0].Value = 0 }},
		"it was another pod's time":   {change: func(a *Answers) { a.Idle[0] = instance(600, "namespace", "chat", "pod", "before") }},
		"allocated to two": {change: func(a *Answers) {
			a.Allocated = append(a.Allocated, instance(1, "namespace", "chat", "pod", "b"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := base()
			if c.change != nil {
				c.change(&a)
			}
			w := newWorld(t, pool("p"), node("n", halves(2)), owned("a"))
			w.readings = NewReadings(start, a)
			device := w.at(c.after).Nodes[0].GPUs[0]
			if got := device.Instances[0].UnusedSince; !got.Equal(c.want) {
				t.Errorf("unused since %s, want %s", got, c.want)
			}
			if !device.UnusedSince.IsZero() || !device.Instances[1].UnusedSince.IsZero() {
				t.Error("the GPU, or the free instance, is reported as allocated and unused")
			}
		})
	}
}

// TestFixedPoolSize: bounds and target of a fixed pool are its size, also when nodes get
// or lose the label.
func TestFixedPoolSize(t *testing.T) {
	p := pool("p")
	p.Spec.Min, p.Spec.Max = 0, 0
	p.Spec.Provider = v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}
	first, second := node("n-1", halves(2)), node("n-2", halves(2))
	w := newWorld(t, p, first)
	w.o.o.Pools = pools.Providers{History: pools.NewHistory(func() time.Time { return start })}
	want := func(after time.Duration, size int) {
		t.Helper()
		o := w.at(after)
		if len(o.Pools) != 1 {
			t.Fatalf("pools %+v, invalid %v", o.Pools, o.Invalid)
		}
		if p := o.Pools[0]; !p.Fixed || p.Size != size || p.Target != size || p.Min != size || p.Max != size {
			t.Errorf("fixed %v, size %d, target %d, min %d, max %d, want %d", p.Fixed, p.Size, p.Target, p.Min, p.Max, size)
		}
		if o.GrowOnly["p"] {
			t.Error("it is in GrowOnly")
		}
	}
	want(0, 1)
	require.NoError(t, w.client.Create(t.Context(), second))
	want(time.Second, 2)
	delete(second.Labels, v1alpha1.NodePoolLabel)
	require.NoError(t, w.client.Update(t.Context(), second))
	want(2*time.Second, 1)
}

// kinds are those of the fakes; making them takes longer than most tests.
var kinds = scheme.New()
