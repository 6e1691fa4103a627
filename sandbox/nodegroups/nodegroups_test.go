package nodegroups

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/require"
)

func newMaker(t *testing.T, objects ...client.Object) (*Maker, client.Client) {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).Build()
	return New(c, c, partition.NewManager(c, c, partition.DefaultConfigMap)), c
}

func testPool() *v1alpha1.GPUNodePool {
	return &v1alpha1.GPUNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: v1alpha1.GPUNodePoolSpec{
			Max:      5,
			Provider: Of("p"),
			Template: v1alpha1.NodeTemplate{
				Product: "NVIDIA-H100-80GB-HBM3", GPUs: 2, Labels: map[string]string{"zone": "a"},
				Taints: []v1alpha1.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}},
				CPU:    resource.MustParse("64"), Memory: resource.MustParse("512Gi"),
			},
			MIG: &v1alpha1.MIG{BootLayout: []map[string]int32{{"3g.40gb": 1, "1g.10gb": 3}, {}}},
		},
	}
}

func nodes(t *testing.T, c client.Client) map[string]corev1.Node {
	t.Helper()
	var list corev1.NodeList
	require.NoError(t, c.List(t.Context(), &list))
	out := map[string]corev1.Node{}
	for _, n := range list.Items {
		out[n.Name] = n
	}
	return out
}

func TestNodesMatchTheTemplate(t *testing.T) {
	k, c := newMaker(t)
	require.NoError(t, k.SetSize(t.Context(), testPool(), 1))
	n := nodes(t, c)["p-1"]
	template, err := pools.Template(testPool(), nil, pools.Listing{})
	require.NoError(t, err)
	for key, want := range template.Labels {
		if got := n.Labels[key]; got != want {
			t.Errorf("label %s = %q, the template says %q", key, got, want)
		}
	}
	for name, want := range map[corev1.ResourceName]string{"nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "3", "cpu": "64"} {
		if q := n.Status.Allocatable[name]; q.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s = %s, want %s", name, q.String(), want)
		}
	}
	if _, whole := n.Status.Allocatable[partition.GPUResource]; whole {
		t.Error("whole GPUs are offered though all are in MIG mode")
	}
	if n.Annotations[kwokAnnotation] != "fake" || len(n.Spec.Taints) != 1 || n.Labels["nvidia.com/gpu.count"] != "2" {
		t.Errorf("node %+v", n.ObjectMeta)
	}
	var cm corev1.ConfigMap
	require.NoError(t, c.Get(t.Context(), partition.DefaultConfigMap, &cm))
	config, err := partition.ParseConfig(cm.Data[partition.ConfigKey])
	require.NoError(t, err)
	if counts, _, known := config.Counts(n.Labels[contract.ConfigLabel], 0); !known || counts["1g.10gb"] != 3 {
		t.Errorf("the boot layout is not published: %v %v", counts, known)
	}
}

func TestFreeNamesAreFilled(t *testing.T) {
	foreign := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "p-2"}} // of no pool
	k, c := newMaker(t, foreign)
	pool := testPool()
	require.NoError(t, k.SetSize(t.Context(), pool, 3))
	have := nodes(t, c)
	for _, name := range []string{"p-1", "p-3", "p-4"} {
		if have[name].Labels[v1alpha1.NodePoolLabel] != "p" {
			t.Errorf("no node %s in %d", name, len(have))
		}
	}
	if l, err := k.List(t.Context(), pool); err != nil || l.Target != 3 {
		t.Errorf("listing %+v, %v", l, err)
	}
	for range 2 {
		if err := k.SetSize(t.Context(), pool, 2); err != nil || len(nodes(t, c)) != 4 {
			t.Errorf("a smaller size removed or made nodes: %v", err)
		}
	}
}

// TestSharedTemplates: a new node offers its replicas under the name that the device plugin gives them,
// and has the labels that GFD gives it.
func TestSharedTemplates(t *testing.T) {
	for rename, c := range map[bool]struct {
		offers  corev1.ResourceName
		product string
		gpus    int
		shared  bool
	}{
		true:  {partition.SharedResource, "NVIDIA-L40S", 2, true},
		false: {partition.GPUResource, "NVIDIA-L40S-SHARED", 8, false},
	} {
		k, client := newMaker(t)
		pool := testPool()
		pool.Spec.MIG, pool.Spec.Template.Product, pool.Spec.Template.GPUs = nil, "NVIDIA-L40S", 2
		pool.Spec.Template.Sharing = &v1alpha1.GPUSharing{Strategy: "mps", Replicas: 4, RenameByDefault: rename}
		template, err := pools.Template(pool, nil, pools.Listing{})
		require.NoError(t, err)
		if len(template.GPUs) != c.gpus || template.GPUs[1].Shared != c.shared || template.GPUs[c.gpus-1].Index != c.gpus-1 {
			t.Errorf("GPUs %+v", template.GPUs)
		}
		require.NoError(t, k.SetSize(t.Context(), pool, 1))
		n := nodes(t, client)["p-1"]
		for key, want := range map[string]string{
			partition.ProductLabel: c.product, partition.CountLabel: "2", partition.ReplicasLabel: "4", partition.SharingLabel: "mps",
		} {
			if n.Labels[key] != want {
				t.Errorf("%s = %q, want %q", key, n.Labels[key], want)
			}
		}
		for _, name := range []corev1.ResourceName{partition.SharedResource, partition.GPUResource} {
			if q, there := n.Status.Allocatable[name]; there != (name == c.offers) || there && q.Value() != 8 {
				t.Errorf("renamed %t: %s = %s", rename, name, q.String())
			}
		}
	}
}
