package observe

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
)

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
