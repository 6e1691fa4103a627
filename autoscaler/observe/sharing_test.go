package observe

import (
	"crypto/sha1" //nolint:gosec // as JobSet names a Job
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
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

// dividing is how two T4 of a node look in a dialect, as its own documents and sources show them, without
// a label of NVIDIA's. A pod requests 40 % of a GPU, or all of one; placed is how its scheduler records GPU i.
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

// TestOneDialectIsNotAnother: nodes of one dialect are no supply for pods of another, nor, where whole
// GPUs are not given under NVIDIA's name, for pods that request those.
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

// TestEmptyDividedNodesGo: the pods of a node are its allocations, in every dialect and without an exporter.
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

// TestDividedNodesOfNoPool: they are supply like any other node, and change nothing for others.
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

// TestBothNames: a node whose GPUs are given whole by NVIDIA's plugin and in parts by a dialect serves both.
// HAMi's priority of a pod is no resource of nodes.
func TestBothNames(t *testing.T) {
	n := dividedNodeOf("n", "elasticgpu")
	n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("2")
	w := newWorld(t, dividedPool(""), n, stuckPod("whole", listOf("nvidia.com/gpu=1")), stuckPod("part", listOf("elasticgpu.io/gpu-core=30")))
	for _, name := range []string{"whole", "part"} {
		if got := w.verdictOn(name, 0, 0); got != plan.WaitScheduler {
			t.Errorf("%s: %s", name, got)
		}
	}
	w = newWorld(t, dividedPool("hami"), dividedNodeOf("n", "hami"), stuckPod("p0", listOf("nvidia.com/gpu=1 nvidia.com/gpumem=1000 nvidia.com/priority=1")))
	if got := w.verdictOn("p0", 0, 0); got != plan.WaitScheduler {
		t.Errorf("with a priority: %s", got)
	}
}

// TestPartsOverSeveralGPUs: ACK's label of a pod divides its memory among as many GPUs.
func TestPartsOverSeveralGPUs(t *testing.T) {
	p := stuckPod("p0", listOf("aliyun.com/gpu-mem=8"))
	p.Labels = map[string]string{"aliyun.com/gpu-count": "4"}
	if got := ConvertPod(p).Demand.String(); got != "2048 MiB of each of 4 GPUs" {
		t.Error(got)
	}
	w := newWorld(t, p, dividedPool("gpushare"))
	if got := w.verdictOn("p0", 0, 0); got != plan.NoPoolFits {
		t.Errorf("on nodes of two GPUs: %s", got)
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
	if d, ok := dividedNode(n); !ok || d.GPUs != 16 || n.Annotations["example.com/long"] != "" {
		t.Errorf("%+v, %d annotations", d, len(n.Annotations))
	}
}

// TestPodsPerGPU: ten pods may share a GPU of HAMi and of Volcano's vGPU, however small they are, as their
// nodes' registers say (deviceSplitCount): ten of twenty-one small pods fit each of two GPUs, and one gets a node.
func TestPodsPerGPU(t *testing.T) {
	for dialect, small := range map[string]string{
		"hami": "nvidia.com/gpu=1 nvidia.com/gpumem=100", "volcano": "volcano.sh/vgpu-number=1 volcano.sh/vgpu-memory=100 volcano.sh/vgpu-cores=1",
	} {
		for what, node := range map[string][]client.Object{"from zero": nil, "beside a node": {dividedNodeOf("n", dialect)}} {
			objects := append(dividedPods(dialect, 0, 21, small), dividedPool(dialect))
			made := plan.Make(newWorld(t, append(objects, node...)...).at(0).Snapshot, plan.DefaultPolicy())
			if len(made.Actions) != 1 || made.Actions[0].Verb != plan.ScaleUp || made.Actions[0].To != 2 {
				t.Errorf("%s, %s: want two nodes in all:\n%s", dialect, what, made)
			}
		}
	}
}

// TestTypesOfGPUs: a pod that HAMi must place on a type of GPU, or on none of one, gets a node of a pool of such
// a product. The annotations are those of HAMi 2.9 (examples/nvidia).
func TestTypesOfGPUs(t *testing.T) {
	for annotation, want := range map[string]string{
		"nvidia.com/use-gputype=A100,V100": "a100", "nvidia.com/use-gputype=tesla t4": "p", "nvidia.com/nouse-gputype=T4,1080": "a100",
		"nvidia.com/nouse-gputype=A100": "p", "nvidia.com/use-gputype=": "p", "nvidia.com/use-gputype=H100": "",
	} {
		p := stuckPod("a", listOf("nvidia.com/gpu=1 nvidia.com/gpumem=1000"))
		key, value, _ := strings.Cut(annotation, "=")
		p.Annotations = map[string]string{key: value}
		dear := dividedPool("hami")
		dear.Spec.Provider = nodegroups.Of("a100")
		dear.Name, dear.Spec.Template.Product, dear.Spec.PricePerHour = "a100", "NVIDIA-A100-PCIE-40GB", ptr.To(resource.MustParse("9"))
		made := plan.Make(newWorld(t, dear, dividedPool("hami"), p).at(0).Snapshot, plan.DefaultPolicy())
		got := ""
		if len(made.Actions) > 0 {
			got = made.Actions[0].Pool
		}
		if got != want {
			t.Errorf("%s: a node of %q, want of %q:\n%s", annotation, got, want, made)
		}
	}
}

// sharingPool is a pool of nodes with two GPUs, each shared by four.
func sharingPool(rename, fail bool) *v1alpha1.GPUNodePool {
	p := poolOf("NVIDIA-L40S", 2)
	p.Spec.Max = 20
	p.Spec.Template.Sharing = &v1alpha1.GPUSharing{Replicas: 4, RenameByDefault: rename, FailRequestsGreaterThanOne: fail}
	return p
}

// sharingNode is a node of that pool, as GFD (k8s-device-plugin v0.17) labels it.
func sharingNode(name string, rename bool) *corev1.Node {
	resource, product := partition.GPUResource, "NVIDIA-L40S-SHARED"
	if rename {
		resource, product = partition.SharedResource, "NVIDIA-L40S"
	}
	n := bare(name, amount(resource, 8))
	n.Labels[partition.PresentLabel], n.Labels[partition.CountLabel], n.Labels[partition.ProductLabel] = "true", "2", product
	n.Labels[partition.ReplicasLabel], n.Labels[partition.SharingLabel] = "4", "time-slicing"
	return n
}

// TestSharedGPUs: shares of GPUs are counted as the scheduler counts them: nodes are added for as many
// as a node has, also from zero and beside full nodes, and none while one is free.
func TestSharedGPUs(t *testing.T) {
	for _, rename := range []bool{true, false} {
		resource := map[bool]string{true: partition.SharedResource, false: partition.GPUResource}[rename]
		pods := func(running, pending int) (out []client.Object) {
			for i := range running {
				out = append(out, pod(fmt.Sprint("r", i), "n", amount(resource, 1)))
			}
			for i := range pending {
				out = append(out, stuckPod(fmt.Sprint("p", i), amount(resource, 1)))
			}
			return out
		}
		with := func(n client.Object, pods []client.Object) []client.Object {
			return append(pods, sharingPool(rename, false), n)
		}
		for name, c := range map[string]struct {
			objects []client.Object
			want    plan.Reason
			added   int
		}{
			"from zero":              {append(pods(0, 9), sharingPool(rename, false)), plan.WaitUpcomingNode, 2},
			"all taken":              {with(sharingNode("n", rename), pods(8, 9)), plan.WaitUpcomingNode, 2},
			"one is free":            {with(sharingNode("n", rename), pods(7, 1)), plan.WaitScheduler, 0},
			"the node is not up yet": {with(booting("n"), pods(0, 8)), plan.WaitUpcomingNode, 0},
		} {
			t.Run(fmt.Sprintf("%s, renamed %t", name, rename), func(t *testing.T) {
				w := newWorld(t, c.objects...)
				if got := w.verdictOn("p0", 10*time.Second, c.added); got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			})
		}
	}
}

// TestWholeGPUsBesideShares: a whole GPU is no share of one, and a share no whole GPU.
func TestWholeGPUsBesideShares(t *testing.T) {
	whole := poolOf("NVIDIA-L40S", 1)
	whole.Name, whole.Spec.Provider = "whole", nodegroups.Of("whole")
	w := newWorld(t, sharingPool(true, false), whole, sharingNode("n", true), stuckPod("gpu", amount(partition.GPUResource, 1)),
		stuckPod("share", amount(partition.SharedResource, 1)))
	made := plan.Make(w.at(0).Snapshot, plan.DefaultPolicy())
	if len(made.Actions) != 1 || made.Actions[0].Pool != "whole" || fmt.Sprint(made.Actions[0].For) != "[chat/gpu]" {
		t.Errorf("%s", made)
	}
}

// TestSharesAreLearned: a pool whose template states no sharing adds nodes like those that it has.
func TestSharesAreLearned(t *testing.T) {
	p := sharingPool(true, false)
	p.Spec.Template.Sharing = nil
	objects := []client.Object{p, sharingNode("n", true), stuckPod("whole", amount(partition.GPUResource, 1))}
	for i := range 8 {
		objects = append(objects, pod(fmt.Sprint("r", i), "n", amount(partition.SharedResource, 1)), stuckPod(fmt.Sprint("p", i), amount(partition.SharedResource, 1)))
	}
	w := newWorld(t, objects...)
	if got := w.verdictOn("p0", 0, 1); got != plan.WaitUpcomingNode {
		t.Errorf("a share: %s", got)
	}
	if got := w.verdictOn("whole", 0, 1); got != plan.NoPoolFits {
		t.Errorf("a whole GPU: %s", got)
	}
}

// TestRequestsGreaterThanOne: a container that the device plugin would fail gets no node; elsewhere its
// shares count.
func TestRequestsGreaterThanOne(t *testing.T) {
	for _, resource := range []string{partition.SharedResource, partition.GPUResource} {
		rename := resource == partition.SharedResource
		for fail, want := range map[bool]plan.Reason{true: plan.NoPoolFits, false: plan.WaitUpcomingNode} {
			w := newWorld(t, sharingPool(rename, fail), stuckPod("a", amount(resource, 2)))
			if got := w.verdictOn("a", 0, map[bool]int{false: 1}[fail]); got != want {
				t.Errorf("two of %s, failRequestsGreaterThanOne %t: %s, want %s", resource, fail, got, want)
			}
		}
	}
}

// TestSharesInQuotas: a share counts as its part of a GPU, a bound pod's by its node.
func TestSharesInQuotas(t *testing.T) {
	n := sharingNode("n", true)
	n.Labels[partition.ReplicasLabel] = "2"
	w := newWorld(t, sharingPool(true, false), n, pod("bound", "n", amount(partition.SharedResource, 1)), stuckPod("pending", amount(partition.SharedResource, 1)))
	out := w.at(0)
	scale := plan.NewScale(out.Tables, nil)
	for _, p := range out.Pods {
		want := map[string]quota.Amount{"bound": {Compute: 4, Memory: 4}, "pending": {Compute: 2, Memory: 2}}[p.Name]
		if got := scale.Amount(&p.Demand, 48<<10); got != want {
			t.Errorf("%s: %v of 7+8 slices, want %v", p.Name, got, want)
		}
	}
}

// TestEmptySharedNodesGo: without an exporter too, the pods of a node with shared GPUs are its
// allocations.
func TestEmptySharedNodesGo(t *testing.T) {
	objects := []client.Object{sharingPool(true, false), sharingNode("n", true), sharingNode("used", true), pod("a", "used", amount(partition.SharedResource, 1))}
	if got := newWorld(t, objects...).removals(41); !slices.Equal(got, []string{"n"}) {
		t.Errorf("removed %q, want n", got)
	}
}

// TestDatasets: a pod is expected where a dataset of its annotation, or of Fluid's claim, is cached.
// Labels are those of Fluid 1.0.8: fluid.io/s-<namespace>-<name>, and a claim of the dataset's name.
func TestDatasets(t *testing.T) {
	annotated := func(text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{"gpuscale.io/datasets": text} }
	}
	mounting := func(claim string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		}
	}
	for what, c := range map[string]struct {
		label, value string
		pod          func(*corev1.Pod)
		has          bool
	}{
		"our label":                        {"dataset.gpuscale.io/books", "true", annotated("films, books"), true},
		"our label, false":                 {"dataset.gpuscale.io/books", "false", annotated("books"), false},
		"another dataset":                  {"dataset.gpuscale.io/books", "true", annotated("films"), false},
		"Fluid's label, by annotation":     {"fluid.io/s-chat-books", "true", annotated("books"), true},
		"Fluid's label, by claim":          {"fluid.io/s-chat-books", "true", mounting("books"), true},
		"Fluid's label, another namespace": {"fluid.io/s-search-books", "true", mounting("books"), false},
		"Fluid's amount":                   {"fluid.io/s-h-alluxio-m-chat-books", "20GiB", mounting("books"), false},
		"no annotation":                    {"dataset.gpuscale.io/books", "true", func(*corev1.Pod) {}, false},
	} {
		p := stuckPod("a", amount("nvidia.com/gpu", 1))
		c.pod(p)
		// n is free, and preferred where data decides: the other has less free capacity.
		n, tight := bare("n", amount("nvidia.com/gpu", 2)), bare("a-tight", amount("nvidia.com/gpu", 2))
		n.Labels[c.label] = c.value
		claim := &corev1.PersistentVolumeClaim{}
		claim.Namespace, claim.Name, claim.Spec.VolumeName = "chat", "books", "v"
		volume := &corev1.PersistentVolume{}
		volume.Name = "v"
		w := newWorld(t, poolOf("NVIDIA-L40S", 2), n, tight, pod("b", "a-tight", amount("nvidia.com/gpu", 1)), p, claim, volume)
		made := plan.Make(w.at(0).Snapshot, plan.DefaultPolicy())
		want := "fits on a-tight"
		if c.has {
			want = "fits on n, which has " + c.label
		}
		i := slices.IndexFunc(made.Verdicts, func(v plan.Verdict) bool { return v.Subject == "chat/a" })
		if i < 0 || made.Verdicts[i].Detail != want {
			t.Errorf("%s: want %q\n%s", what, want, made)
		}
	}
}

// TestOtherResourcesFromZero: what a template states beside GPUs starts a pool from zero nodes, huge pages
// too; a pod that requests what no template states gets none.
func TestOtherResourcesFromZero(t *testing.T) {
	requests := amount("nvidia.com/gpu", 1)
	requests["rdma/hca"], requests["hugepages-2Mi"] = resource.MustParse("2"), resource.MustParse("1Gi")
	for what, c := range map[string]struct {
		template corev1.ResourceList
		scaledUp int
		want     plan.Reason
		lacks    string
	}{
		"stated":        {corev1.ResourceList{"rdma/hca": resource.MustParse("4"), "hugepages-2Mi": resource.MustParse("16Gi")}, 1, plan.WaitUpcomingNode, ""},
		"no huge pages": {corev1.ResourceList{"rdma/hca": resource.MustParse("4")}, 0, plan.NoPoolFits, "its nodes offer no hugepages-2Mi"},
		"too few":       {corev1.ResourceList{"rdma/hca": resource.MustParse("1"), "hugepages-2Mi": resource.MustParse("16Gi")}, 0, plan.NoPoolFits, "too few rdma/hca"},
		"none":          {nil, 0, plan.NoPoolFits, "its nodes offer no hugepages-2Mi"},
	} {
		p := poolOf("NVIDIA-L40S", 2)
		p.Spec.Template.Resources = c.template
		w := newWorld(t, []client.Object{p, stuckPod("a", requests)}...)
		if got := w.verdictOn("a", 0, c.scaledUp); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
		if text := plan.Make(w.at(0).Snapshot, plan.DefaultPolicy()).String(); !strings.Contains(text, c.lacks) {
			t.Errorf("%s: want %q\n%s", what, c.lacks, text)
		}
	}
	for name, want := range map[corev1.ResourceName]string{
		"nvidia.com/gpu": "nvidia.com/gpu is stated by the template's other fields", "aliyun.com/gpu-mem": "aliyun.com/gpu-mem is stated by",
		"cpu": "cpu is stated by", "amd.com/cpx_nps4": "amd.com/cpx_nps4 is stated by",
	} {
		p := poolOf("NVIDIA-L40S", 2)
		p.Spec.Template.Resources = corev1.ResourceList{name: resource.MustParse("1")}
		if err := newWorld(t, p).at(0).Invalid["p"]; err == nil || !strings.Contains(err.Error(), "spec.template.resources: "+want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	negative := poolOf("NVIDIA-L40S", 2)
	negative.Spec.Template.Resources = corev1.ResourceList{"rdma/hca": resource.MustParse("-1")}
	if err := newWorld(t, negative).at(0).Invalid["p"]; err == nil || !strings.Contains(err.Error(), "no node has -1 of rdma/hca") {
		t.Errorf("negative: %v", err)
	}
}

// TestExclusiveJobs: the pods of a Job that JobSet (0.12) has not created yet belong to the same place as its
// first pod, to which its webhook has given this affinity: the rack that holds both is used, not the tighter one.
func TestExclusiveJobs(t *testing.T) {
	text := `apiVersion: v1
kind: Namespace
metadata: {name: chat}
---
apiVersion: v1
kind: Pod
metadata:
  name: train-workers-0-0
  labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: workers, jobset.sigs.k8s.io/job-index: "0", jobset.sigs.k8s.io/job-key: KEY}
spec:
  tolerations: [{operator: Exists}]
  containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]
  affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: rack, namespaceSelector: {}, labelSelector: {matchExpressions: [{key: jobset.sigs.k8s.io/job-key, operator: In, values: [KEY]}]}}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: rack
        namespaceSelector: {}
        labelSelector: {matchExpressions: [{key: jobset.sigs.k8s.io/job-key, operator: Exists}, {key: jobset.sigs.k8s.io/job-key, operator: NotIn, values: [KEY]}]}`
	sum := sha1.Sum([]byte("chat/train-workers-0")) //nolint:gosec // as JobSet names a Job
	objects := manifests(t, strings.ReplaceAll(text, "KEY", hex.EncodeToString(sum[:])))
	objects[1].SetNamespace("chat")
	for _, name := range []string{"a-1", "b-1", "b-2"} {
		n := bare(name, amount("nvidia.com/gpu", 2))
		n.Labels["rack"] = name[:1]
		objects = append(objects, n)
	}
	w := newWorld(t, append(objects, poolOf("NVIDIA-L40S", 2))...)
	w.neighbour(foreign.JobSet, `
metadata: {namespace: chat, name: train, annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}
spec:
  replicatedJobs:
  - name: workers
    replicas: 1
    template: {spec: {parallelism: 2, completions: 2, template: {spec: {tolerations: [{operator: Exists}], containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]}}}}`)
	made := plan.Make(w.at(0).Snapshot, plan.DefaultPolicy())
	i := slices.IndexFunc(made.Verdicts, func(v plan.Verdict) bool { return v.Kind == plan.KindGang })
	if i < 0 || made.Verdicts[i].Detail != "2 of 2: 2 WaitScheduler; in rack=b" || slices.ContainsFunc(made.Actions, func(a plan.Action) bool { return a.Verb == plan.ScaleUp }) {
		t.Errorf("want both in rack b\n%s", made)
	}
}
