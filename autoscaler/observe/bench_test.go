package observe

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan"
)

// BenchmarkObserve1000 observes 1,000 nodes of 8 cards with 3,667 pods on them, of
// which the exporters say everything, when nothing has changed since the round
// before. Goal: 10 ms, so that a round each second takes no hundredth of a core.
// BenchmarkObserve7500 is the same of 7,500 nodes and 27,500 pods; goal: 75 ms.
// Changed is a round after which a tenth of the pods are others.
func BenchmarkObserve1000(b *testing.B)        { benchmarkObserve(b, 1000, 0) }
func BenchmarkObserve7500(b *testing.B)        { benchmarkObserve(b, 7500, 0) }
func BenchmarkObserve1000Changed(b *testing.B) { benchmarkObserve(b, 1000, 10) }

func benchmarkObserve(b *testing.B, nodes, changed int) {
	c := fullCluster(nodes)
	o := newBenchObserver(c)
	round := 0
	b.ReportAllocs()
	defer processor(b)()
	for b.Loop() {
		if round++; changed > 0 {
			for i := round % changed; i < len(c.pods); i += changed {
				c.pods[i].ResourceVersion = strconv.Itoa(round)
			}
		}
		out, err := o.Observe(b.Context(), start.Add(time.Second))
		if err != nil || len(out.Nodes) != nodes || len(out.Pods) != len(c.pods) {
			b.Fatalf("%d nodes, %d pods: %v", len(out.Nodes), len(out.Pods), err)
		}
	}
}

func newBenchObserver(c *shelf) *Observer {
	readings := NewReadings(start, answersOf(c))
	return New(Options{Cluster: c, Readings: func() *Readings { return readings }, Pools: sizes{}, ConfigMap: partition.DefaultConfigMap})
}

// processor reports what an operation takes of processors, collector included: unlike
// its time that does not depend on who else is at work.
func processor(b *testing.B) (report func()) {
	used := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
	}
	before := used()
	return func() { b.ReportMetric((used()-before)/float64(b.N), "cpu-ms/op") }
}

// shelf is a double of a cache that is in sync: a list is a shallow copy of what it
// has, as controller-runtime's is without deep copies. It has no other objects.
type shelf struct {
	client.Reader
	nodes []corev1.Node
	pods  []corev1.Pod
	pools []v1alpha1.GPUNodePool
}

func (s *shelf) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.NodeList:
		l.Items = append([]corev1.Node(nil), s.nodes...)
	case *corev1.PodList:
		l.Items = append([]corev1.Pod(nil), s.pods...)
	case *v1alpha1.GPUNodePoolList:
		l.Items = append([]v1alpha1.GPUNodePool(nil), s.pools...)
	}
	return nil
}

func (s *shelf) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
}

// sizes is a double of the providers: each pool is as large as was asked.
type sizes struct{}

func (sizes) List(context.Context, *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return pools.Listing{Target: 1}, nil
}

func (sizes) Template(*v1alpha1.GPUNodePool, mig.Tables) (plan.Template, error) {
	return plan.Template{CPUMilli: 128000, MemoryMi: 1 << 20, Labels: map[string]string{}}, nil
}

func (sizes) Learn(*v1alpha1.GPUNodePool, int, []*corev1.Node) pools.Learned { return pools.Learned{} }

// fullCluster has nodes of 8 cards, all held: by one pod, by two, or by eight.
func fullCluster(nodes int) *shelf {
	s := &shelf{pools: []v1alpha1.GPUNodePool{*pool("p")}}
	for n := range nodes {
		node := node(fmt.Sprintf("node-%05d", n), corev1.ResourceList{"cpu": resource.MustParse("128"), "nvidia.com/gpu": resource.MustParse("8")})
		node.UID, node.Labels[countLabel], node.ResourceVersion = types.UID(node.Name), "8", "1"
		s.nodes = append(s.nodes, *node)
		each := []int{8, 4, 1}[n%3]
		for i := range 8 / each {
			s.pods = append(s.pods, *benchPod(fmt.Sprintf("pod-%05d-%d", n, i), node.Name, each))
		}
	}
	return s
}

func benchPod(name, on string, cards int) *corev1.Pod {
	list := corev1.ResourceList{
		"cpu": *resource.NewQuantity(int64(cards), resource.DecimalSI), "memory": *resource.NewQuantity(int64(cards)<<30, resource.BinarySI),
		"nvidia.com/gpu": *resource.NewQuantity(int64(cards), resource.DecimalSI),
	}
	p := pod(name, on, list)
	p.UID, p.ResourceVersion, p.Labels = types.UID(name), "1", map[string]string{"app": "train", "pod-template-hash": "5b8d7c9f6d"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "train-5b8d7c9f6d", UID: "rs", Controller: ptr.To(true)}}
	p.Spec.Containers[0].Resources.Limits = list
	p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	p.Status.Phase = corev1.PodRunning
	return p
}

// answersOf is what Prometheus says of a full cluster.
func answersOf(s *shelf) Answers {
	var a Answers
	add := func(v *prom.Vector, value float64, labels ...string) { *v = append(*v, series(value, labels...)) }
	held := map[string][]*corev1.Pod{}
	for i := range s.pods {
		p := &s.pods[i]
		held[p.Spec.NodeName] = append(held[p.Spec.NodeName], p)
	}
	for i := range s.nodes {
		name := s.nodes[i].Name
		add(&a.Age, 1, "node", name)
		for c := range 8 {
			who := ""
			if n := len(held[name]); n > 0 {
				who = held[name][c*n/8].Name
			}
			card := []string{"node", name, "gpu", strconv.Itoa(c), "gpu_uuid", fmt.Sprintf("GPU-%s-%d", name, c)}
			add(&a.Info, 1, append(card, "model", "NVIDIA H100 80GB HBM3", "mig", "false", "pci_bus_id", "00000000:0F:00.0", "driver_version", "570.86.15")...)
			add(&a.Held, 1, append(card, "namespace", "chat", "pod", who, "container", "main")...)
			add(&a.Busy, 0.9, append(card, "model", "NVIDIA H100 80GB HBM3", "namespace", "chat", "pod", who)...)
			add(&a.SampleAge, 1, card...)
			add(&a.Healthy, 1, card...)
		}
	}
	return a
}
