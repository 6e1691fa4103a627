package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

// listOf reads "name=1 name=2".
func listOf(text string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, field := range strings.Fields(text) {
		name, n, _ := strings.Cut(field, "=")
		out[corev1.ResourceName(name)] = resource.MustParse(n)
	}
	return out
}

const hamiRegister = `[{"id":"GPU-a","count":10,"devmem":15360,"devcore":100,"type":"NVIDIA-Tesla T4","mode":"hami-core","health":true},` +
	`{"id":"GPU-b","index":1,"count":10,"devmem":15360,"devcore":100,"type":"NVIDIA-Tesla T4","mode":"hami-core","health":true}]`

// dividing has for each dialect how two T4 of a node look, after the dialect's own documents and sources and without a
// label of NVIDIA's. A pod requests 40 % of a GPU, or a whole one; placed is how its scheduler records GPU i.
var dividing = map[string]struct {
	node, annotations string // of the node: its allocatable, and annotation=value
	part, whole       string
	placed            func(i int) map[string]string
}{
	"gpushare": {
		"aliyun.com/gpu-mem=30 aliyun.com/gpu-count=2", "", "aliyun.com/gpu-mem=6", "aliyun.com/gpu-mem=15",
		func(i int) map[string]string {
			return map[string]string{"ALIYUN_COM_GPU_MEM_IDX": fmt.Sprint(i), "ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}
		},
	},
	"qgpu": {
		"tke.cloud.tencent.com/qgpu-core=200 tke.cloud.tencent.com/qgpu-memory=30", "",
		"tke.cloud.tencent.com/qgpu-core=40 tke.cloud.tencent.com/qgpu-memory=5", "tke.cloud.tencent.com/qgpu-core=100",
		func(i int) map[string]string {
			return map[string]string{"elasticgpu.io/container-main": fmt.Sprint(i), "elasticgpu.io/assumed": "true"}
		},
	},
	"vcuda": {
		"tencent.com/vcuda-core=200 tencent.com/vcuda-memory=120", "",
		"tencent.com/vcuda-core=40 tencent.com/vcuda-memory=20", "tencent.com/vcuda-core=100",
		func(i int) map[string]string {
			return map[string]string{"tencent.com/predicate-gpu-idx-0": fmt.Sprint(i), "tencent.com/gpu-assigned": "true"}
		},
	},
	"elasticgpu": {
		"elasticgpu.io/gpu-core=200 elasticgpu.io/gpu-memory=30720", "",
		"elasticgpu.io/gpu-core=40 elasticgpu.io/gpu-memory=4096", "elasticgpu.io/gpu-core=100",
		func(i int) map[string]string {
			return map[string]string{"elasticgpu.io/container-main": fmt.Sprint(i), "elasticgpu.io/assumed": "true"}
		},
	},
	"nano-gpu": {
		"nano-gpu/gpu-percent=200", "", "nano-gpu/gpu-percent=40", "nano-gpu/gpu-percent=100",
		func(i int) map[string]string {
			return map[string]string{"nano-gpu/container-main": fmt.Sprint(i), "nano-gpu/assume": "true"}
		},
	},
	"hami": {
		"nvidia.com/gpu=20", "hami.io/node-nvidia-register=" + hamiRegister,
		"nvidia.com/gpu=1 nvidia.com/gpumem=6000 nvidia.com/gpucores=40", "nvidia.com/gpu=1",
		func(i int) map[string]string {
			return map[string]string{"hami.io/vgpu-devices-allocated": []string{"GPU-a", "GPU-b"}[i] + ",NVIDIA,6000,40:;"}
		},
	},
	"volcano": {
		"volcano.sh/vgpu-number=20 volcano.sh/vgpu-memory=30720 volcano.sh/vgpu-cores=200",
		"volcano.sh/node-vgpu-register=GPU-a,10,15360,NVIDIA-Tesla T4,true:GPU-b,10,15360,NVIDIA-Tesla T4,true:",
		"volcano.sh/vgpu-number=1 volcano.sh/vgpu-memory=6000 volcano.sh/vgpu-cores=40", "volcano.sh/vgpu-number=1",
		func(i int) map[string]string {
			return map[string]string{"volcano.sh/vgpu-ids-new": []string{"GPU-a", "GPU-b"}[i] + ",NVIDIA,6000,40:;"}
		},
	},
	"volcano-gpushare": {
		"volcano.sh/gpu-memory=30720 volcano.sh/gpu-number=2", "", "volcano.sh/gpu-memory=6000", "volcano.sh/gpu-number=1", nil,
	},
}

func dividedPool(dialect string) *v1alpha1.GPUNodePool {
	p := poolOf("Tesla-T4", 2)
	p.Spec.Max = 20
	if dialect != "" {
		p.Spec.Template.Sharing = &v1alpha1.GPUSharing{Strategy: dialect}
	}
	return p
}

func dividedNodeOf(name, dialect string) *corev1.Node {
	d := dividing[dialect]
	n := bare(name, listOf(d.node))
	if key, value, ok := strings.Cut(d.annotations, "="); ok {
		n.Annotations = map[string]string{key: value}
	}
	return n
}

// dividedPods are pods of a dialect: the i-th bound one is recorded to be on GPU i.
func dividedPods(dialect string, running, pending int, request string) (out []client.Object) {
	d := dividing[dialect]
	for i := range running {
		p := pod(fmt.Sprint("r", i), "n", listOf(d.part))
		p.Spec.Containers[0].Name = "main"
		if d.placed != nil {
			p.Annotations = d.placed(i % 2)
		}
		out = append(out, p)
	}
	for i := range pending {
		out = append(out, stuckPod(fmt.Sprint("p", i), listOf(request)))
	}
	return out
}

// TestDialects: nodes that carry a dialect's resources alone are known by them. Nodes are added for as
// many parts as two GPUs have, from zero and beside full ones, and none while a part is free.
func TestDialects(t *testing.T) {
	for dialect, d := range dividing {
		node := dividedNodeOf("n", dialect)
		starts := booting("n")
		delete(starts.Labels, "nvidia.com/gpu.present")
		for name, c := range map[string]struct {
			objects []client.Object
			want    plan.Reason
			added   int
		}{
			"from zero by the template":    {append(dividedPods(dialect, 0, 9, d.part), dividedPool(dialect)), plan.WaitUpcomingNode, 3},
			"from zero, whole GPUs":        {append(dividedPods(dialect, 0, 3, d.whole), dividedPool(dialect)), plan.WaitUpcomingNode, 2},
			"all taken, and learned":       {append(dividedPods(dialect, 4, 1, d.part), dividedPool(""), node), plan.WaitUpcomingNode, 1},
			"all taken":                    {append(dividedPods(dialect, 4, 5, d.part), dividedPool(dialect), node), plan.WaitUpcomingNode, 2},
			"one part is free":             {append(dividedPods(dialect, 3, 1, d.part), dividedPool(dialect), node), plan.WaitScheduler, 0},
			"a whole GPU is free":          {append(dividedPods(dialect, 1, 1, d.whole), dividedPool(dialect), node), plan.WaitScheduler, 0},
			"the node is not up yet":       {append(dividedPods(dialect, 0, 4, d.part), dividedPool(dialect), starts), plan.WaitUpcomingNode, 0},
			"of a pool without the plugin": {append(dividedPods(dialect, 0, 1, d.part), dividedPool("")), plan.NoPoolFits, 0},
		} {
			t.Run(dialect+", "+name, func(t *testing.T) {
				w := newWorld(t, c.objects...)
				if got := w.verdictOn("p0", 10*time.Second, c.added); got != c.want {
					t.Errorf("%s, want %s:\n%s", got, c.want, plan.Make(w.at(10*time.Second).Snapshot, plan.DefaultPolicy()))
				}
			})
		}
	}
}

// TestRecordedPlacement: where a dialect's scheduler spreads two parts over two GPUs, no whole GPU is left,
// and where it packs them, one is.
func TestRecordedPlacement(t *testing.T) {
	for dialect, d := range dividing {
		if d.placed == nil {
			continue
		}
		for packed, want := range map[bool]int{false: 1, true: 0} {
			pods := dividedPods(dialect, 2, 1, d.whole)
			if packed {
				pods[1].SetAnnotations(d.placed(0))
			}
			w := newWorld(t, append(pods, dividedPool(dialect), dividedNodeOf("n", dialect))...)
			if got := w.verdictOn("p0", 10*time.Second, want); want == 0 && got != plan.WaitScheduler {
				t.Errorf("%s, packed %t: %s", dialect, packed, got)
			}
		}
	}
}

// TestUnhealthyGPU: HAMi allocates no GPU that its node's list does not call healthy, so such a GPU is not free.
func TestUnhealthyGPU(t *testing.T) {
	n := dividedNodeOf("n", "hami")
	n.Annotations["hami.io/node-nvidia-register"] = strings.Replace(hamiRegister, `,"health":true}]`, "}]", 1)
	w := newWorld(t, append(dividedPods("hami", 1, 1, dividing["hami"].whole), dividedPool("hami"), n)...)
	if got := w.verdictOn("p0", 10*time.Second, 1); got != plan.WaitUpcomingNode {
		t.Error(got)
	}
}

// TestOneDialectIsNotAnother: nodes of one dialect are no supply for pods of another. Nor are they for pods that
// request whole GPUs by NVIDIA's name, where the dialect offers none under it.
func TestOneDialectIsNotAnother(t *testing.T) {
	for dialect := range dividing {
		for other := range dividing {
			if other == dialect {
				continue
			}
			w := newWorld(t, append(dividedPods(other, 0, 1, dividing[other].part), dividedPool(dialect), dividedNodeOf("n", dialect))...)
			if got := w.verdictOn("p0", 0, 0); got != plan.NoPoolFits {
				t.Errorf("a pod of %s on nodes of %s: %s", other, dialect, got)
			}
		}
		w := newWorld(t, dividedPool(dialect), dividedNodeOf("n", dialect), stuckPod("p0", listOf("nvidia.com/gpu=1")))
		if got, want := w.verdictOn("p0", 0, 0), map[bool]plan.Reason{false: plan.NoPoolFits, true: plan.WaitScheduler}[dialect == "hami"]; got != want {
			t.Errorf("a whole GPU on nodes of %s: %s, want %s", dialect, got, want)
		}
	}
}

// TestEmptyDividedNodesGo: an empty node of a dialect is removed without an exporter, since the pods of a node are its
// allocations.
func TestEmptyDividedNodesGo(t *testing.T) {
	for dialect := range dividing {
		used := dividedPods(dialect, 1, 0, "")
		used[0].(*corev1.Pod).Spec.NodeName = "used"
		w := newWorld(t, append(used, dividedPool(dialect), dividedNodeOf("n", dialect), dividedNodeOf("used", dialect))...)
		if got := w.removals(41); !slices.Equal(got, []string{"n"}) {
			t.Errorf("%s: removed %q, want n", dialect, got)
		}
	}
}

// TestDividedNodesOfNoPool: nodes of a dialect that are in no pool are supply like any other node, and change nothing
// for others.
func TestDividedNodesOfNoPool(t *testing.T) {
	for dialect, d := range dividing {
		foreign := dividedNodeOf("n", dialect)
		delete(foreign.Labels, v1alpha1.NodePoolLabel)
		w := newWorld(t, append(dividedPods(dialect, 0, 1, d.part), poolOf("NVIDIA-L40S", 1), foreign, stuckPod("whole", listOf("nvidia.com/gpu=1")))...)
		added := 1
		if dialect == "hami" {
			added = 0 // its nodes serve that pod too
		}
		if got := w.verdictOn("p0", 0, added); got != plan.WaitScheduler {
			t.Errorf("%s: %s", dialect, got)
		}
	}
}

// TestRegisterIsKept: a node with 16 GPUs lists them in more than the cache keeps of other annotations.
func TestRegisterIsKept(t *testing.T) {
	n := dividedNodeOf("n", "hami")
	n.Annotations["hami.io/node-nvidia-register"] = "[" + strings.Repeat(hamiRegister[1:len(hamiRegister)-1]+",", 8)[:8*(len(hamiRegister)-1)-1] + "]"
	n.Annotations["example.com/long"] = strings.Repeat("x", 2000)
	if _, err := TrimNode(n); err != nil {
		t.Fatal(err)
	}
	if d := readNode(NewClaims(nil, nil, nil, nil), n).divided; d == nil || d.GPUs != 16 || n.Annotations["example.com/long"] != "" {
		t.Errorf("%+v, %d annotations", d, len(n.Annotations))
	}
}
