package observe

import (
	"math/rand"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/plan"
)

func container(name string, amounts map[corev1.ResourceName]int64) corev1.Container {
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for r, n := range amounts {
		c.Resources.Requests[r] = *apiresource.NewQuantity(n, apiresource.DecimalSI)
	}
	return c
}

func sidecar(c corev1.Container) corev1.Container {
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return c
}

// TestDemandMatchesTheScheduler: the demand for whole GPUs equals that of component-helpers, and
// so the scheduler's.
func TestDemandMatchesTheScheduler(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	some := func() corev1.Container {
		return container("c", map[corev1.ResourceName]int64{"nvidia.com/gpu": int64(r.Intn(4))})
	}
	for range 500 {
		p := &corev1.Pod{}
		for range r.Intn(4) {
			c := some()
			if r.Intn(2) == 0 {
				c = sidecar(c)
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
		for range 1 + r.Intn(3) {
			p.Spec.Containers = append(p.Spec.Containers, some())
		}
		if r.Intn(2) == 0 {
			p.Spec.Overhead = container("", map[corev1.ResourceName]int64{"nvidia.com/gpu": int64(r.Intn(2)), "cpu": 1}).Resources.Requests
		}
		all := resource.PodRequests(p, resource.PodResourcesOptions{})
		want := all["nvidia.com/gpu"]
		got, err := (*Claims)(nil).demandOfPod(p)
		if err != nil || int64(got.GPUs) != want.Value() {
			t.Fatalf("%d GPUs, %v; want %d of init %v and %v", got.GPUs, err, want.Value(), p.Spec.InitContainers, p.Spec.Containers)
		}
	}
}

// TestPartsAreReadByContainer: HAMi's parts of GPUs have another meaning in a sum.
func TestPartsAreReadByContainer(t *testing.T) {
	half := map[corev1.ResourceName]int64{"nvidia.com/gpu": 1, "nvidia.com/gpucores": 50}
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		container("a", half), container("b", map[corev1.ResourceName]int64{"nvidia.com/gpu": 1}),
	}}}
	got, err := (*Claims)(nil).demandOfPod(p)
	if err != nil || got.GPUs != 1 || got.Fraction == nil || got.Fraction.CoreMilli != 500 {
		t.Errorf("%v, %v: want a GPU, and half of another", got, err)
	}
}

func TestUnreadableDemand(t *testing.T) {
	waits := stuckPod("waits", nil)
	waits.Spec.Containers = []corev1.Container{
		container("a", map[corev1.ResourceName]int64{"nvidia.com/gpu": 1}), container("b", map[corev1.ResourceName]int64{"amd.com/gpu": 1}),
	}
	runs := waits.DeepCopy()
	runs.Name, runs.Spec.NodeName, runs.Status = "runs", "n", corev1.PodStatus{}
	w := newWorld(t, pool("p"), node("n", halves(2)), waits, runs)
	w.readings = NewReadings(start, twoHalves(1))
	seen := w.at(0)
	if got := w.verdictOn("waits", 0, 0); got != plan.DemandUnreadable {
		t.Errorf("%q, want %s", got, plan.DemandUnreadable)
	}
	for _, p := range seen.Pods {
		if !strings.Contains(p.Unreadable, "amd") || !p.Demand.Zero() {
			t.Errorf("pod %s: %q, %v", p.Name, p.Unreadable, p.Demand)
		}
	}
	if seen.Nodes[0].GPUs[0].AllocationKnown {
		t.Error("the GPU may be allocated to the running pod")
	}
}

// TestEffectiveRequests: CPU and memory are the scheduler's sums, with pod-level resources and an
// in-place resize; GPUs are the containers' sum.
func TestEffectiveRequests(t *testing.T) {
	device := map[corev1.ResourceName]int64{"nvidia.com/gpu": 1, "cpu": 2, "memory": 1<<30 + 1}
	list := func(amounts map[corev1.ResourceName]int64) corev1.ResourceList {
		return container("", amounts).Resources.Requests
	}
	spec := corev1.PodSpec{Containers: []corev1.Container{container("a", device), container("b", map[corev1.ResourceName]int64{"nvidia.com/gpu": 1})}}
	own := *spec.DeepCopy()
	own.Resources = &corev1.ResourceRequirements{Requests: list(map[corev1.ResourceName]int64{"cpu": 8, "memory": 4 << 30})}
	grown := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a",
		Resources: &corev1.ResourceRequirements{Requests: list(map[corev1.ResourceName]int64{"cpu": 6, "memory": 1 << 30})}}}}
	for what, c := range map[string]struct {
		pod     corev1.Pod
		cpu, mi int64 // cpu in thousandths
	}{
		"containers side by side":            {corev1.Pod{Spec: spec}, 2000, 1025},
		"pod-level resources are the pod's":  {corev1.Pod{Spec: own}, 8000, 4096},
		"grown in place, and not shrunk yet": {corev1.Pod{Spec: spec, Status: grown}, 6000, 1025},
	} {
		if got := ConvertPod(&c.pod); got.Unreadable != "" || got.Demand.GPUs != 2 || got.CPUMilli != c.cpu || got.MemoryMi != c.mi {
			t.Errorf("%s: %d GPUs, %d m, %d Mi, %q; want 2, %d, %d", what, got.Demand.GPUs, got.CPUMilli, got.MemoryMi, got.Unreadable, c.cpu, c.mi)
		}
	}
}

// TestPartsForKAI: KAI's annotations count on pods of its scheduler; KAI's own pods count for
// nothing.
func TestPartsForKAI(t *testing.T) {
	half := map[string]string{"gpu-fraction": "0.5"}
	of := func(scheduler string, annotations map[string]string) corev1.Pod {
		p := corev1.Pod{Spec: corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{container("c", nil)}}}
		p.Annotations = annotations
		return p
	}
	own := func(namespace, app string) corev1.Pod {
		p := of("", nil)
		p.Namespace, p.Labels = namespace, map[string]string{"app": app}
		p.Spec.Containers[0] = container("c", map[corev1.ResourceName]int64{"nvidia.com/gpu": 1})
		return p
	}
	for _, c := range []struct {
		what string
		pod  corev1.Pod
		want string
	}{
		{"KAI's", of("kai-scheduler", half), "50 % memory of a GPU"},
		{"KAI's, under another name", of("my-kai", half), "50 % memory of a GPU"},
		{"without a scheduler's name", of("", half), "none"},
		{"the default scheduler's", of("default-scheduler", half), "none"},
		{"wrong", of("kai-scheduler", map[string]string{"gpu-fraction": "2"}), "!annotation gpu-fraction"},
		{"wrong, and not KAI's", of("", map[string]string{"gpu-memory": "large"}), "none"},
		{"a reservation", own("kai-resource-reservation", "kai-resource-reservation"), "none"},
		{"a scaling pod", own("kai-scale-adjust", "scaling-pod"), "none"},
		{"another pod there", own("kai-resource-reservation", "burn-in"), "1 GPU"},
		{"a pod of that name elsewhere", own("team", "scaling-pod"), "1 GPU"},
	} {
		checkDemand(t, c.what, ConvertPod(&c.pod), c.want)
	}
}

// amounts is a list of resources: name, amount, name, amount.
func amounts(words ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(words); i += 2 {
		list[corev1.ResourceName(words[i])] = apiresource.MustParse(words[i+1])
	}
	return list
}

func limitRange(name string, items ...corev1.LimitRangeItem) corev1.LimitRange {
	return corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.LimitRangeSpec{Limits: items}}
}

func perContainer(limits, requests corev1.ResourceList) corev1.LimitRangeItem {
	return corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: limits, DefaultRequest: requests}
}

func asking(requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func TestWithDefaults(t *testing.T) {
	cpuAndGPU := limitRange("b", perContainer(amounts("cpu", "4", "nvidia.com/gpu", "1"), amounts("cpu", "2", "nvidia.com/gpu", "1")))
	for _, c := range []struct {
		what   string
		spec   corev1.PodSpec
		ranges []corev1.LimitRange
		want   []corev1.ResourceRequirements // init containers, then containers
	}{
		{
			"nothing requested, no defaults", corev1.PodSpec{Containers: []corev1.Container{asking(nil, nil)}}, nil,
			[]corev1.ResourceRequirements{{}},
		},
		{
			"requests that are not stated are the limits", corev1.PodSpec{Containers: []corev1.Container{asking(amounts("cpu", "1"), amounts("cpu", "2", "nvidia.com/gpu", "2"))}}, nil,
			[]corev1.ResourceRequirements{{Requests: amounts("cpu", "1", "nvidia.com/gpu", "2"), Limits: amounts("cpu", "2", "nvidia.com/gpu", "2")}},
		},
		{
			"a container without requests gets a GPU, an init container too",
			corev1.PodSpec{InitContainers: []corev1.Container{asking(nil, nil)}, Containers: []corev1.Container{asking(nil, nil)}}, []corev1.LimitRange{cpuAndGPU},
			[]corev1.ResourceRequirements{
				{Requests: amounts("cpu", "2", "nvidia.com/gpu", "1"), Limits: amounts("cpu", "4", "nvidia.com/gpu", "1")},
				{Requests: amounts("cpu", "2", "nvidia.com/gpu", "1"), Limits: amounts("cpu", "4", "nvidia.com/gpu", "1")},
			},
		},
		{
			"its own limit, and so its own request, before the default request",
			corev1.PodSpec{Containers: []corev1.Container{asking(nil, amounts("cpu", "8", "nvidia.com/gpu", "0"))}}, []corev1.LimitRange{cpuAndGPU},
			[]corev1.ResourceRequirements{{Requests: amounts("cpu", "8", "nvidia.com/gpu", "0"), Limits: amounts("cpu", "8", "nvidia.com/gpu", "0")}},
		},
		{
			"a default limit is a request too", corev1.PodSpec{Containers: []corev1.Container{asking(nil, nil)}},
			[]corev1.LimitRange{limitRange("a", perContainer(amounts("cpu", "4"), nil))},
			[]corev1.ResourceRequirements{{Requests: amounts("cpu", "4"), Limits: amounts("cpu", "4")}},
		},
		{
			"of several the first by name, of its items the last; those for pods and claims have no effect",
			corev1.PodSpec{Containers: []corev1.Container{asking(nil, nil)}},
			[]corev1.LimitRange{cpuAndGPU, limitRange("a",
				perContainer(nil, amounts("cpu", "7")), perContainer(nil, amounts("cpu", "1")),
				corev1.LimitRangeItem{Type: corev1.LimitTypePod, DefaultRequest: amounts("memory", "1Gi")})},
			[]corev1.ResourceRequirements{{Requests: amounts("cpu", "1", "nvidia.com/gpu", "1"), Limits: amounts("cpu", "4", "nvidia.com/gpu", "1")}},
		},
	} {
		before := c.spec.DeepCopy()
		got := WithDefaults(&c.spec, c.ranges)
		for i, container := range append(got.InitContainers, got.Containers...) {
			if !equality.Semantic.DeepEqual(container.Resources, c.want[i]) {
				t.Errorf("%s: container %d has %v, want %v", c.what, i, container.Resources, c.want[i])
			}
		}
		if !reflect.DeepEqual(&c.spec, before) {
			t.Errorf("%s: the template itself was changed", c.what)
		}
		if again := WithDefaults(&got, c.ranges); !reflect.DeepEqual(again, got) {
			t.Errorf("%s: a pod that has been through it changed again", c.what)
		}
	}
}

// TestWithDefaultsPodLevel: pod-level requests follow from the sum of the containers' requests,
// after the LimitRanges' defaults, else from the pod's limits.
func TestWithDefaultsPodLevel(t *testing.T) {
	of := func(requests, limits corev1.ResourceList, containers ...corev1.Container) corev1.PodSpec {
		return corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: requests, Limits: limits}, Containers: containers}
	}
	ranges := []corev1.LimitRange{limitRange("a", perContainer(nil, amounts("cpu", "2")))}
	for _, c := range []struct {
		what string
		spec corev1.PodSpec
		want corev1.ResourceList
	}{
		{"no limits: as it is", of(amounts("memory", "1Gi"), nil, asking(nil, nil)), amounts("memory", "1Gi")},
		{"of the containers", of(nil, amounts("cpu", "8"), asking(nil, nil), asking(amounts("cpu", "3"), nil)), amounts("cpu", "5")},
		{"of the limits", of(nil, amounts("memory", "4Gi"), asking(nil, nil)), amounts("cpu", "2", "memory", "4Gi")},
		{"its own", of(amounts("cpu", "1"), amounts("cpu", "8"), asking(nil, nil)), amounts("cpu", "1")},
		{"GPUs are no pod-level resource", of(nil, amounts("cpu", "8"), asking(nil, amounts("nvidia.com/gpu", "1"))), amounts("cpu", "2")},
	} {
		got := WithDefaults(&c.spec, ranges)
		if !equality.Semantic.DeepEqual(got.Resources.Requests, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, got.Resources.Requests, c.want)
		}
		pod := corev1.Pod{Spec: got}
		if want := c.want["cpu"]; !want.IsZero() && ConvertPod(&pod).CPUMilli != want.MilliValue() {
			t.Errorf("%s: the planner sees %d m", c.what, ConvertPod(&pod).CPUMilli)
		}
	}
}

// TestDefaultsAreDemand: the namespace's defaults are part of the demand.
func TestDefaultsAreDemand(t *testing.T) {
	ranges := []corev1.LimitRange{limitRange("a", perContainer(amounts("nvidia.com/mig-1g.10gb", "1"), amounts("nvidia.com/mig-1g.10gb", "1")))}
	spec := corev1.PodSpec{Containers: []corev1.Container{asking(nil, nil)}}
	for want, pod := range map[string]corev1.Pod{
		"none":      {Spec: spec},
		"1g.10gb×1": {Spec: WithDefaults(&spec, ranges)},
	} {
		checkDemand(t, "a template", ConvertPod(&pod), want)
	}
}

// manifests reads YAML documents as the API server stores them: a pod's limits are its requests, and the
// scheduler has marked it unschedulable.
func manifests(t *testing.T, text string) []client.Object {
	t.Helper()
	read := serializer.NewCodecFactory(scheme.New()).UniversalDeserializer()
	var out []client.Object
	for doc := range strings.SplitSeq(text, "\n---\n") {
		object, _, err := read.Decode([]byte(doc), nil, nil)
		if err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		if p, ok := object.(*corev1.Pod); ok {
			for i := range p.Spec.Containers {
				r := &p.Spec.Containers[i].Resources
				if r.Requests == nil {
					r.Requests = corev1.ResourceList{}
				}
				for name, q := range r.Limits {
					if _, stated := r.Requests[name]; !stated {
						r.Requests[name] = q
					}
				}
			}
			p.Namespace, p.Status = "chat", stuckPod("", nil).Status
		}
		out = append(out, object.(client.Object))
	}
	return out
}

// requesting is a pod with one container.
func requesting(limits string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, resources: {limits: {" + limits + "}}}]}"
}

// chartClasses are the device classes of NVIDIA's driver's chart.
const chartClasses = `
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec: {extendedResourceName: nvidia.com/gpu, selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mig.nvidia.com}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: vfio.gpu.nvidia.com}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'vfio'"}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: compute-domain-default-channel.nvidia.com}
spec: {selectors: [{cel: {expression: "device.driver == 'compute-domain.nvidia.com' && device.attributes['compute-domain.nvidia.com'].type == 'channel' && device.attributes['compute-domain.nvidia.com'].id == 0"}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: mig-1g-12gb.gpu.nvidia.com}
spec:
  extendedResourceName: nvidia.com/mig-1g.12gb
  selectors: [{cel: {expression: "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig' && device.attributes['gpu.nvidia.com'].profile == '1g.12gb'"}}]`

// claiming is a pod with a claim of each template, and a template with these requests.
func claiming(limits, requests string) string {
	return `apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {namespace: chat, name: t}
spec: {spec: {devices: {requests: [` + requests + `]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {resourceClaims: [{name: r, resourceClaimTemplateName: t}], containers: [{name: c, resources: {claims: [{name: r}], limits: {` + limits + `}}}]}` + chartClasses
}

// TestVendorsManifests: what a vendor's documented manifest requests is demand, or has a verdict that says what
// is not served. The fields are those of the documents named; amounts by resource alone are in package demand.
func TestVendorsManifests(t *testing.T) {
	for _, c := range []struct {
		document string // HAMi 2.9 at 4707fb0, elastic-gpu at 94fc37e, …
		objects  string
		want     string // the demand, or "!" and a part of the verdict
	}{
		// Elastic GPU. Its scheduler (09b010d) reads containers' resources and no claim.
		{"elastic-gpu README: a claim by annotation", `apiVersion: v1
kind: Pod
metadata: {name: a, annotations: {egpuc.elasticgpu.io/test1: gpushare-egpuc-1}}
spec: {containers: [{name: test-cuda, image: "nvidia/cuda:10.0-base"}]}`, "!ElasticGPUClaim gpushare-egpuc-1"},
		{"elastic-gpu README: the requests of a claim, in a container", requesting("gpushare.provisioner.elasticgpu.io/gpu-core: 10, gpushare.provisioner.elasticgpu.io/gpu-memory: 4"), "!no node offers it"},
		{"elastic-gpu-scheduler README: shared", requesting(`elasticgpu.io/gpu-memory: "256"`), "256 MiB of a GPU"},
		{"elastic-gpu-scheduler README: several GPUs", requesting(`elasticgpu.io/gpu-core: "200"`), "100 % core + 100 % memory of each of 2 GPUs"},
		{"elastic-gpu types: remote and physical GPUs", requesting("elasticgpu.com/gpu-core: 10"), "!no node offers it"},

		// HAMi.
		{"HAMi examples/nvidia/default_use", requesting("nvidia.com/gpu: 1, nvidia.com/gpumem: 3000, nvidia.com/gpucores: 30"), "30 % core + 3000 MiB of a GPU"},
		{"HAMi examples/nvidia/dynamic_mig_example", `apiVersion: v1
kind: Pod
metadata: {name: a, annotations: {nvidia.com/vgpu-mode: mig, hami.io/gpu-scheduler-policy: binpack}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2, nvidia.com/gpumem: 8000}}}]}`, "8000 MiB of each of 2 GPUs"},
		{"HAMi examples/nvidia/specify_scheduling_policy", `apiVersion: v1
kind: Pod
metadata: {name: a, annotations: {hami.io/node-scheduler-policy: spread, hami.io/gpu-scheduler-policy: binpack}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}`, "1 GPU"},
		{"HAMi examples/nvidia/vllm_cross_vgpu", requesting("nvidia.com/gpu: 2, nvidia.com/gpumem-percentage: 30, nvidia.com/gpucores: 30"), "30 % core + 30 % memory of each of 2 GPUs"},
		{"HAMi examples/nvidia/use_as_normal: two containers", `apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}, {name: d, resources: {limits: {nvidia.com/gpu: 1}}}]}`, "2 GPUs"},
		{"HAMi examples/ascend/job-910C", requesting("huawei.com/Ascend910C: 1, huawei.com/Ascend910C-memory: 16384"), "16384 MiB of a GPU"},
		{"HAMi examples/awsneuron/allocate_core", requesting("aws.amazon.com/neuroncore: 1"), "!no node offers it"},
		{"HAMi examples/biren", requesting("birentech.com/gpu: 1"), "!no node offers it"},
		{"HAMi examples/enflame/gcu_use", requesting("enflame.com/gcu: 1"), "!no node offers it"},
		{"HAMi examples/enflame/vgcu_use", requesting("enflame.com/gcu-memory: 20480, enflame.com/gcu-core: 40"), "!no node offers it"},
		{"HAMi examples/hygon/default_use", requesting("hygon.com/dcunum: 1, hygon.com/dcucores: 60, hygon.com/dcumem: 2000"), "!no node offers it"},
		{"HAMi examples/iluvatar/default_use_BI-V100", requesting("iluvatar.ai/BI-V100-vgpu: 1, iluvatar.ai/BI-V100.vCore: 50, iluvatar.ai/BI-V100.vMem: 64"), "!no node offers it"},
		{"HAMi examples/kunlun/default_use", requesting("kunlunxin.com/vxpu: 1, kunlunxin.com/vxpu-memory: 24576"), "!no node offers it"},
		{"HAMi examples/metax/sgpu/default_use", requesting("metax-tech.com/sgpu: 1, metax-tech.com/vcore: 60, metax-tech.com/vmemory: 4"), "!no node offers it"},
		{"HAMi examples/mlu/default_use", requesting(`cambricon.com/vmlu: "1", cambricon.com/mlu370.smlu.vmemory: "20", cambricon.com/mlu370.smlu.vcore: "10"`), "!no node offers it"},
		{"HAMi examples/mthreads/default_use", requesting("mthreads.com/vgpu: 1, mthreads.com/sgpu-memory: 32, mthreads.com/sgpu-core: 8"), "!no node offers it"},
		{"HAMi examples/vastai/default_use", requesting("vastaitech.com/va: 1"), "!no node offers it"},

		// Volcano, with volcano-vgpu-device-plugin 4fb76ba.
		{"volcano-vgpu-device-plugin examples/vgpu-case02", requesting("volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 10240"), "10240 MiB of a GPU"},
		{"volcano-vgpu-device-plugin README: number alone", requesting("volcano.sh/vgpu-number: 1"), "100 % core + 100 % memory of a GPU"},

		// Alibaba and Tencent.
		{"ACK, sharing several GPUs", `apiVersion: v1
kind: Pod
metadata: {name: a, labels: {aliyun.com/gpu-count: "2"}}
spec: {containers: [{name: c, resources: {limits: {aliyun.com/gpu-mem: 8}}}]}`, "4096 MiB of each of 2 GPUs"},
		{"TKE, qGPU", requesting(`tke.cloud.tencent.com/qgpu-core: "10", tke.cloud.tencent.com/qgpu-memory: "4"`), "10 % core + 4096 MiB of a GPU"},
		{"gpu-manager README", requesting("tencent.com/vcuda-core: 50, tencent.com/vcuda-memory: 30"), "50 % core + 7680 MiB of a GPU"},
		{"nano-gpu-scheduler README", requesting(`nano-gpu/gpu-percent: "20"`), "20 % core of a GPU"},

		// Other makers. ROCm k8s-device-plugin ed76468, Intel's 94a91bc.
		{"ROCm docs/user-guide/configuration: named partitions", requesting("amd.com/cpx_nps4: 1"), "!amd.com/cpx_nps4: has an unknown size"},
		{"ROCm docs/user-guide/configuration: unpartitioned, by name", requesting("amd.com/spx_nps1: 5"), "5 amd GPUs"},
		{"ROCm docs/user-guide/examples: two GPUs", requesting("amd.com/gpu: 2"), "2 amd GPUs"},
		{"Intel demo/intelgpu-job", requesting("gpu.intel.com/i915: 1"), "1 intel GPU"},
		{"Intel GPU plugin README: xe", requesting("gpu.intel.com/xe: 1"), "1 intel GPU"},
		{"Intel GPU plugin monitoring.md", requesting("gpu.intel.com/monitoring: 1"), "!no node offers it"},
		{"Intel demo/intel-npu-workload", requesting("npu.intel.com/accel: 1"), "!no node offers it"},
		{"Habana, running Gaudi jobs", requesting("habana.ai/gaudi: 1, memory: 409Gi, hugepages-2Mi: 95000Mi"), "!habana.ai/gaudi: no node offers it"},
		{"MindCluster: a training pod", requesting("huawei.com/Ascend910: 8"), "8 huawei GPUs"},
		{"MindCluster: dynamic vNPU by AI cores", requesting("huawei.com/npu-core: 8"), "!huawei.com/npu-core: has an unknown size"},
		{"MindCluster: a static vNPU", requesting("huawei.com/Ascend310P-2c: 1"), "!huawei.com/Ascend310P-2c: has an unknown size"},
		{"GKE, TPUs in a slice", `apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  nodeSelector: {cloud.google.com/gke-tpu-accelerator: tpu-v5-lite-podslice, cloud.google.com/gke-tpu-topology: 2x4}
  containers: [{name: c, resources: {requests: {google.com/tpu: 8}, limits: {google.com/tpu: 8}}}]`, "8 google GPUs"},
		{"KubeVirt: a vGPU of GRID", requesting("nvidia.com/GRID_T4-1Q: 1"), "!no node offers it"},

		// DRA: the demos of NVIDIA's driver at 2240711.
		{"quickstart gpu-test1", claiming("", "{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}"), "1 GPU"},
		{"quickstart gpu-test4: instances of one GPU", claiming("", `
  {name: mig-1g-5gb-0, exactly: {deviceClassName: mig.nvidia.com, selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].profile == '1g.5gb'"}}]}},
  {name: mig-3g-20gb, exactly: {deviceClassName: mig.nvidia.com, selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].profile == '3g.20gb'"}}]}}`), "1g.5gb×1, 3g.20gb×1"},
		{"quickstart gpu-test6: by pattern and index", claiming("", `{name: gpu, exactly: {deviceClassName: gpu.nvidia.com,
  selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$') && device.attributes['gpu.nvidia.com'].index == 0"}}]}}`), "!is not supported"},
		{"quickstart gpu-test-vfiopci", claiming("", "{name: gpu, exactly: {deviceClassName: vfio.gpu.nvidia.com}}"), `!type "vfio"`},
		{"imex channel-injection: a channel is no GPU", claiming("nvidia.com/gpu: 4", "{name: channel, exactly: {deviceClassName: compute-domain-default-channel.nvidia.com}}"), "4 GPUs"},
		{"extended-resources gpu-full", requesting("nvidia.com/gpu: 1") + chartClasses, "1 GPU"},
		{"extended-resources mig-1g-12gb", requesting("nvidia.com/mig-1g.12gb: 1") + chartClasses, "1g.12gb×1"},
		{"a part of each GPU's memory, of partitionable devices", claiming("", "{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, capacity: {requests: {memory: 10Gi}}}}"), "10240 MiB of a GPU"},
	} {
		w := newWorld(t, append(manifests(t, c.objects), pool("p"))...)
		pods := w.at(0).Pods
		if len(pods) != 1 {
			t.Errorf("%s: neither demand nor a verdict", c.document)
			continue
		}
		checkDemand(t, c.document, pods[0], c.want)
	}
}
