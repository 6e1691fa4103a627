package fit

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

// testCase is the input of `controlplane fit`; sandbox/controlplane/fit.go explains it.
type testCase struct {
	Nodes      []*core.Node                  `json:"nodes"`
	Pods       []*core.Pod                   `json:"pods"`
	Namespaces []*core.Namespace             `json:"namespaces"`
	Claims     []*core.PersistentVolumeClaim `json:"claims"`
	Volumes    []*core.PersistentVolume      `json:"volumes"`
	Classes    []*storage.StorageClass       `json:"classes"`
	CSINodes   []*storage.CSINode            `json:"csiNodes"`
	Pod        *core.Pod                     `json:"pod"`
	// Devices that a DRA driver offers.
	DeviceClasses  []*resourcev1.DeviceClass     `json:"deviceClasses"`
	ResourceSlices []*resourcev1.ResourceSlice   `json:"resourceSlices"`
	ResourceClaims []*resourcev1.ResourceClaim   `json:"resourceClaims"`
	TaintRules     []*resourcev1.DeviceTaintRule `json:"taintRules"`
	// Pools are for new nodes. Only the planner reads them.
	Pools []*v1alpha1.GPUNodePool `json:"pools"`
	// Mixed means that some nodes offer GPUs by a device plugin and others by DRA. Plugged lists the pools whose nodes
	// all use a device plugin.
	Mixed   bool     `json:"mixed"`
	Plugged []string `json:"plugged"`
	// Dynamic means that the DRA driver divides GPUs when they are claimed.
	Dynamic bool `json:"dynamic"`
	// Adapters lists the pools whose nodes have network adapters. More means that the pod's claim requires more of its
	// devices than their number.
	Adapters []string `json:"adapters"`
	More     bool     `json:"more"`
}

func (c *testCase) node(name string) *core.Node {
	return c.Nodes[slices.IndexFunc(c.Nodes, func(n *core.Node) bool { return n.Name == name })]
}

// left returns the cluster without the pods that are leaving.
func (c *testCase) left() *testCase {
	out := *c
	out.Pods = slices.DeleteFunc(slices.Clone(c.Pods), func(p *core.Pod) bool { return p.DeletionTimestamp != nil })
	return &out
}

// pending is the name of the pod whose placement is tested.
const pending = "pending"

// answer is the output of `controlplane fit`.
type answer struct {
	Fits []string          `json:"fits"`
	Why  map[string]string `json:"why"`
}

// now is the time of each case.
var now = time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)

// dice makes random clusters that are so small and have so many rules that about half of the pods fit no
// node.
type dice struct{ *rand.Rand }

func (d dice) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d dice, from ...T) T { return from[d.IntN(len(from))] }

// some returns a random part of a list, each element with the given chance.
func some[T any](d dice, percent int, from ...T) (out []T) {
	for _, v := range from {
		if d.chance(percent) {
			out = append(out, v)
		}
	}
	return out
}

const (
	zone = core.LabelTopologyZone
	host = core.LabelHostname
	rack = "rack"
	tier = "tier"
	gpus = "nvidia.com/gpu"
	// small and large are the MIG resources that divided GPUs have.
	small, large = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
	hca          = "rdma/hca"
	// driver is a CSI driver with a limit on volumes for each node.
	driver = "csi.test"
)

func (d dice) testCase() *testCase {
	c := &testCase{}
	for i, name := range []string{"blue", "red"} {
		c.Namespaces = append(c.Namespaces, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{"team": strconv.Itoa(i)}}})
	}
	divided := d.chance(25)
	for i := range 1 + d.IntN(2) {
		c.Pools = append(c.Pools, d.pool("p"+strconv.Itoa(i)))
		if divided {
			c.Pools[i].Spec.Template.Product, c.Pools[i].Spec.MIG = "NVIDIA-A100-SXM4-40GB", &v1alpha1.MIG{Actuator: "none"}
		}
		if divided && d.chance(70) {
			c.Pools[i].Spec.MIG.BootLayout = []map[string]int32{d.layout()}
		}
	}
	for i := range 1 + d.IntN(5) {
		c.Nodes = append(c.Nodes, d.node("n"+strconv.Itoa(i), pick(d, c.Pools...)))
	}
	if d.chance(30) {
		n := d.node("cpu", c.Pools[0])
		n.Labels = d.labels()
		n.Labels[host] = "cpu"
		withdraw(n)
		c.Nodes = append(c.Nodes, n)
	}
	free := map[string]core.ResourceList{}
	for _, n := range c.Nodes {
		free[n.Name] = n.Status.Allocatable.DeepCopy()
	}
	rules := pick(d, 0, 20, 60)
	for i := range d.IntN(10) {
		p := d.pod("b"+strconv.Itoa(i), rules)
		n := pick(d, c.Nodes...)
		if divided {
			rename(p, gpus, pick[core.ResourceName](d, gpus, small, small, large))
		}
		name, asks := deviceOf(p)
		if left := free[n.Name][name]; left.Value() >= asks {
			free[n.Name][name] = *resource.NewQuantity(left.Value()-asks, resource.DecimalSI)
		} else {
			withoutDevices(p)
		}
		p.Spec.NodeName, p.Status.Phase = n.Name, pick(d, core.PodRunning, core.PodRunning, core.PodRunning, core.PodRunning, core.PodPending, core.PodSucceeded, core.PodFailed)
		if d.chance(10) {
			d.resizing(p)
		}
		if d.chance(10) && n.Name != "cpu" { // the autoscaler does not read pods that leave this node
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = ptr.To(meta.NewTime(now.Add(20*time.Second))), ptr.To[int64](30), []string{"test/kept"}
		}
		c.Pods = append(c.Pods, p)
	}
	c.Pod = d.pod(pending, pick(d, 10, 40, 70))
	c.Pod.Spec.Containers[0].Resources.Requests[gpus] = *resource.NewQuantity(int64(1+d.IntN(2)), resource.DecimalSI)
	if divided {
		rename(c.Pod, gpus, pick[core.ResourceName](d, gpus, small, small, large))
	}
	c.Pod.Status = core.PodStatus{Phase: core.PodPending, Conditions: []core.PodCondition{{
		Type: core.PodScheduled, Status: core.ConditionFalse, Reason: core.PodReasonUnschedulable, LastTransitionTime: meta.NewTime(now.Add(-time.Minute)),
	}}}
	if d.chance(30) {
		d.volumes(c)
	}
	if d.chance(30) {
		d.byClaim(c)
	}
	return c
}

// volumes gives volumes to some pods.
func (d dice) volumes(c *testCase) {
	c.Classes = []*storage.StorageClass{
		{ObjectMeta: meta.ObjectMeta{Name: "late"}, Provisioner: driver, VolumeBindingMode: ptr.To(storage.VolumeBindingWaitForFirstConsumer)},
		{ObjectMeta: meta.ObjectMeta{Name: "zoned"}, Provisioner: driver, VolumeBindingMode: ptr.To(storage.VolumeBindingWaitForFirstConsumer),
			AllowedTopologies: []core.TopologySelectorTerm{{MatchLabelExpressions: []core.TopologySelectorLabelRequirement{{Key: zone, Values: some(d, 50, "a", "b", "c")}}}}},
		{ObjectMeta: meta.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: ptr.To(storage.VolumeBindingWaitForFirstConsumer)},
		{ObjectMeta: meta.ObjectMeta{Name: "soon"}, Provisioner: driver, VolumeBindingMode: ptr.To(storage.VolumeBindingImmediate)},
	}
	if len(c.Classes[1].AllowedTopologies[0].MatchLabelExpressions[0].Values) == 0 {
		c.Classes[1].AllowedTopologies = nil
	}
	for _, n := range c.Nodes {
		if d.chance(60) {
			csi := &storage.CSINode{ObjectMeta: meta.ObjectMeta{Name: n.Name}, Spec: storage.CSINodeSpec{Drivers: []storage.CSINodeDriver{{Name: driver, NodeID: n.Name}}}}
			if d.chance(70) {
				csi.Spec.Drivers[0].Allocatable = &storage.VolumeNodeResources{Count: ptr.To(int32(1 + d.IntN(2)))}
			}
			c.CSINodes = append(c.CSINodes, csi)
		}
	}
	zoned := !slices.ContainsFunc(c.Nodes, func(n *core.Node) bool { return n.Labels[zone] == "" }) &&
		!slices.ContainsFunc(c.Pools, func(p *v1alpha1.GPUNodePool) bool { return p.Spec.Template.Labels[zone] == "" })
	chooses := false // several claims could be given the same volume
	for i := range 3 {
		class := pick(d, "late", "zoned", "local", "local", "soon")
		v := &core.PersistentVolume{ObjectMeta: meta.ObjectMeta{Name: "v" + strconv.Itoa(i), Labels: map[string]string{}}}
		v.Spec.StorageClassName, v.Spec.Capacity = class, core.ResourceList{core.ResourceStorage: resource.MustParse(pick(d, "1Gi", "9Gi"))}
		v.Spec.AccessModes = []core.PersistentVolumeAccessMode{pick(d, core.ReadWriteOnce, core.ReadWriteMany)}
		v.Spec.PersistentVolumeSource = core.PersistentVolumeSource{CSI: &core.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: v.Name}}
		if v.Spec.AccessModes[0] == core.ReadWriteMany {
			v.Spec.StorageClassName, v.Spec.CSI.Driver = "local", "unlimited.test"
		}
		if d.chance(60) {
			v.Spec.NodeAffinity = &core.VolumeNodeAffinity{Required: d.nodeAffinity(0).RequiredDuringSchedulingIgnoredDuringExecution}
		} else if zoned && d.chance(50) {
			v.Labels[zone] = pick(d, "a", "b", "a__b")
		}
		v.Status.Phase = core.VolumeAvailable
		claim := &core.PersistentVolumeClaim{ObjectMeta: meta.ObjectMeta{Namespace: "blue", Name: "c" + strconv.Itoa(i)}}
		claim.Spec.StorageClassName, claim.Spec.AccessModes = &v.Spec.StorageClassName, v.Spec.AccessModes
		claim.Spec.Resources.Requests = core.ResourceList{core.ResourceStorage: resource.MustParse(pick(d, "1Gi", "5Gi"))}
		claim.Status.Phase = core.ClaimPending
		if d.chance(50) {
			claim.Spec.VolumeName, claim.Status.Phase, v.Status.Phase = v.Name, core.ClaimBound, core.VolumeBound
			claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
			v.Spec.ClaimRef = &core.ObjectReference{Namespace: "blue", Name: claim.Name}
		}
		c.Claims, c.Volumes = append(c.Claims, claim), append(c.Volumes, v)
		alone, used := v.Spec.AccessModes[0] == core.ReadWriteOnce, false
		if unbound := claim.Spec.VolumeName == ""; c.Pod.Namespace == "blue" && d.chance(40) && !(unbound && chooses) {
			chooses, used = chooses || unbound, true
			c.Pod.Spec.Volumes = append(c.Pod.Spec.Volumes, volumeOf(claim))
		}
		for _, p := range c.Pods {
			if p.Namespace == "blue" && d.chance(20) && claim.Spec.VolumeName != "" && !(alone && used) {
				used = true
				p.Spec.Volumes = append(p.Spec.Volumes, volumeOf(claim))
			}
		}
	}
}

func volumeOf(c *core.PersistentVolumeClaim) core.Volume {
	return core.Volume{Name: c.Name, VolumeSource: core.VolumeSource{PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: c.Name}}}
}

func (d dice) labels() map[string]string {
	out := map[string]string{}
	if d.chance(85) {
		out[zone] = pick(d, "a", "b", "c")
	}
	if d.chance(60) {
		out[rack] = pick(d, "r1", "r2")
	}
	if d.chance(60) {
		out[tier] = pick(d, "gold", "silver", "5", "7")
	}
	return out
}

func (d dice) taints() []core.Taint {
	return some(d, 12,
		core.Taint{Key: "team", Value: "a", Effect: core.TaintEffectNoSchedule},
		core.Taint{Key: "dedicated", Value: pick(d, "3", "x"), Effect: core.TaintEffectNoExecute},
		core.Taint{Key: "soft", Effect: core.TaintEffectPreferNoSchedule},
		core.Taint{Key: gpus, Value: "present", Effect: core.TaintEffectNoSchedule})
}

func (d dice) pool(name string) *v1alpha1.GPUNodePool {
	p := &v1alpha1.GPUNodePool{ObjectMeta: meta.ObjectMeta{Name: name, Generation: 1}}
	p.Spec.Provider, p.Spec.Max = nodegroups.Of(name), 100
	p.Spec.Template = v1alpha1.NodeTemplate{
		Product: "NVIDIA-L4", GPUs: pick(d, int32(1), 2, 4), Labels: d.labels(),
		CPU: *resource.NewQuantity(int64(2+d.IntN(5)), resource.DecimalSI), Memory: resource.MustParse(pick(d, "4Gi", "8Gi")),
	}
	for _, t := range d.taints() {
		p.Spec.Template.Taints = append(p.Spec.Template.Taints, v1alpha1.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	return p
}

// layoutOf returns the layout of a new node's GPUs, nil for whole GPUs.
func layoutOf(p *v1alpha1.GPUNodePool) map[string]int32 {
	if mig := p.Spec.MIG; mig != nil && len(mig.BootLayout) > 0 {
		return mig.BootLayout[0]
	}
	return nil
}

// node makes a node of a pool, or of none.
func (d dice) node(name string, of *v1alpha1.GPUNodePool) *core.Node {
	t := of.Spec.Template
	n := &core.Node{ObjectMeta: meta.ObjectMeta{Name: name, Labels: d.labels(), CreationTimestamp: meta.NewTime(now.Add(-5 * time.Hour))}}
	n.Labels[host] = name
	n.Labels["nvidia.com/gpu.present"], n.Labels["nvidia.com/gpu.product"], n.Labels["nvidia.com/gpu.count"] = "true", t.Product, strconv.Itoa(int(t.GPUs))
	if d.chance(80) {
		n.Labels[v1alpha1.NodePoolLabel] = of.Name
		for _, key := range []string{zone, rack} {
			if value, stated := t.Labels[key]; stated {
				n.Labels[key] = value
			}
		}
	}
	n.Spec.Taints = d.taints()
	if d.chance(12) {
		n.Spec.Unschedulable = true
		n.Spec.Taints = append(n.Spec.Taints, core.Taint{Key: core.TaintNodeUnschedulable, Effect: core.TaintEffectNoSchedule})
	}
	ready := core.ConditionTrue
	if d.chance(8) {
		ready = core.ConditionFalse
		n.Spec.Taints = append(n.Spec.Taints, core.Taint{Key: core.TaintNodeNotReady, Effect: core.TaintEffectNoSchedule}, core.Taint{Key: core.TaintNodeNotReady, Effect: core.TaintEffectNoExecute})
	}
	n.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: ready}}
	n.Status.Allocatable = core.ResourceList{
		core.ResourceCPU: t.CPU, core.ResourceMemory: t.Memory,
		core.ResourcePods: *resource.NewQuantity(int64(pick(d, 2, 5, 110)), resource.DecimalSI), core.ResourceEphemeralStorage: resource.MustParse("20Gi"),
	}
	layout := layoutOf(of)
	if mig := of.Spec.MIG; mig != nil {
		if n.Labels["nvidia.com/mig.strategy"] = "mixed"; d.chance(30) {
			layout = pick(d, nil, d.layout())
		}
	}
	maps.Copy(n.Status.Allocatable, offered(int64(t.GPUs), layout))
	if d.chance(30) {
		n.Status.Allocatable[hca] = resource.MustParse("2")
	}
	n.Status.Capacity = n.Status.Allocatable.DeepCopy()
	return n
}

// pod makes a pod that has each kind of rule with some chance.
func (d dice) pod(name string, rules int) *core.Pod {
	p := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: pick(d, "blue", "blue", "red"), Name: name, Labels: map[string]string{"app": pick(d, "a", "b")}, CreationTimestamp: meta.NewTime(now.Add(-time.Hour))}}
	if d.chance(60) {
		p.Labels["version"] = pick(d, "1", "2")
	}
	p.Spec.Containers = []core.Container{d.container("main", true)}
	if d.chance(20) {
		p.Spec.Containers = append(p.Spec.Containers, d.container("second", d.chance(20)))
	}
	if d.chance(20) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, d.container("first", d.chance(20)))
	}
	if d.chance(20) {
		sidecar := d.container("sidecar", d.chance(20))
		sidecar.RestartPolicy = ptr.To(core.ContainerRestartPolicyAlways)
		p.Spec.InitContainers = append(p.Spec.InitContainers, sidecar)
	}
	if d.chance(20) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, d.container("last", d.chance(20)))
	}
	if d.chance(15) {
		p.Spec.Overhead = core.ResourceList{core.ResourceCPU: resource.MustParse("250m"), core.ResourceMemory: resource.MustParse("120Mi")}
	}
	if d.chance(15) {
		p.Spec.Resources = &core.ResourceRequirements{Requests: d.amounts(false)}
	}
	if d.chance(rules / 2) {
		p.Spec.NodeSelector = map[string]string{pick(d, zone, rack, tier): pick(d, "a", "b", "r1", "gold")}
	}
	p.Spec.Tolerations = some(d, rules/2,
		core.Toleration{Key: "team", Operator: core.TolerationOpEqual, Value: pick(d, "a", "b"), Effect: core.TaintEffectNoSchedule},
		core.Toleration{Key: "dedicated", Operator: core.TolerationOpExists},
		core.Toleration{Key: gpus, Operator: core.TolerationOpExists},
		core.Toleration{Operator: core.TolerationOpExists, Effect: pick(d, "", "", core.TaintEffectNoSchedule)})
	affinity := &core.Affinity{}
	if d.chance(rules / 2) {
		affinity.NodeAffinity = d.nodeAffinity(10)
	}
	if d.chance(rules / 2) {
		affinity.PodAffinity = &core.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: d.terms(p.Labels)}
	}
	if d.chance(rules / 2) {
		affinity.PodAntiAffinity = &core.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: d.terms(p.Labels)}
	}
	if d.chance(90) {
		p.Spec.Affinity = affinity
	}
	for _, key := range some(d, rules/2, zone, host, rack) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, d.spread(key))
	}
	return p
}

// resizing sets a pod's status as after a resize in place (1.37, pkg/kubelet/kubelet_pods.go): for each
// container the allocated and the actual resources, and from 1.36 on also the sums of the pod.
func (d dice) resizing(p *core.Pod) {
	allocated := p.DeepCopy()
	statuses := func(containers []core.Container) (all []core.ContainerStatus) {
		for i := range containers {
			c := &containers[i]
			c.Resources.Requests = d.resized(c.Resources.Requests)
			all = append(all, core.ContainerStatus{Name: c.Name, AllocatedResources: c.Resources.Requests, Resources: &core.ResourceRequirements{Requests: d.resized(c.Resources.Requests)}})
		}
		return all
	}
	p.Status.InitContainerStatuses, p.Status.ContainerStatuses = statuses(allocated.Spec.InitContainers), statuses(allocated.Spec.Containers)
	if d.chance(50) {
		p.Status.Conditions = append(p.Status.Conditions, core.PodCondition{Type: core.PodResizePending, Status: core.ConditionTrue, Reason: pick(d, core.PodReasonInfeasible, core.PodReasonDeferred)})
	}
	if d.chance(50) {
		if r := allocated.Spec.Resources; r != nil {
			r.Requests = d.resized(r.Requests)
		}
		p.Status.AllocatedResources = resourcehelper.PodRequests(allocated, resourcehelper.PodResourcesOptions{})
		p.Status.Resources = &core.ResourceRequirements{Requests: d.resized(nil)}
	}
}

// resized returns the resources with other amounts of CPU and memory, the only ones that a resize changes.
func (d dice) resized(from core.ResourceList) core.ResourceList {
	out := core.ResourceList{}
	maps.Copy(out, from)
	other := d.amounts(false)
	for _, name := range []core.ResourceName{core.ResourceCPU, core.ResourceMemory} {
		delete(out, name)
		if q, has := other[name]; has {
			out[name] = q
		}
	}
	return out
}

// devices are the resource names of GPUs and their MIG devices.
var devices = []core.ResourceName{gpus, small, large}

// layout returns a random layout of a GPU.
func (d dice) layout() map[string]int32 {
	return pick(d, map[string]int32{"3g.20gb": 2}, map[string]int32{"3g.20gb": 1, "1g.5gb": 3}, map[string]int32{"1g.5gb": 2}, map[string]int32{"1g.5gb": 7})
}

// offered returns the devices of a number of GPUs with a layout; nil for whole GPUs.
func offered(count int64, layout map[string]int32) core.ResourceList {
	if layout == nil {
		return core.ResourceList{gpus: *resource.NewQuantity(count, resource.DecimalSI)}
	}
	out := core.ResourceList{}
	for profile, n := range layout {
		out[core.ResourceName("nvidia.com/mig-"+profile)] = *resource.NewQuantity(count*int64(n), resource.DecimalSI)
	}
	return out
}

// withdraw removes all devices from a node.
func withdraw(n *core.Node) {
	for _, name := range devices {
		delete(n.Status.Allocatable, name)
		delete(n.Status.Capacity, name)
	}
}

// deviceOf returns the device resource that a pod requests; there is at most one.
func deviceOf(p *core.Pod) (name core.ResourceName, amount int64) {
	for _, name := range devices {
		if amount := amountOf(p, name); amount > 0 {
			return name, amount
		}
	}
	return gpus, 0
}

// rename replaces one resource by another in a pod's requests.
func rename(p *core.Pod, from, to core.ResourceName) {
	for _, list := range requestsOf(p) {
		if n, has := list[from]; has && from != to {
			delete(list, from)
			list[to] = n
		}
	}
}

// withoutDevices removes a pod's requests for devices.
func withoutDevices(p *core.Pod) {
	for _, list := range requestsOf(p) {
		for _, name := range devices {
			delete(list, name)
		}
	}
}

// requestsOf returns the requests of a pod's containers.
func requestsOf(p *core.Pod) (all []core.ResourceList) {
	for _, containers := range [][]core.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range containers {
			all = append(all, c.Resources.Requests)
		}
	}
	for _, st := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		all = append(all, st.AllocatedResources, st.Resources.Requests)
	}
	return append(all, p.Status.AllocatedResources)
}

// amountOf returns how much of a resource a pod requests.
func amountOf(p *core.Pod, name core.ResourceName) int64 {
	q := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})[name]
	return q.Value()
}

func (d dice) container(name string, large bool) core.Container {
	c := core.Container{Name: name, Resources: core.ResourceRequirements{Requests: d.amounts(large)}}
	if d.chance(10) {
		c.Ports = []core.ContainerPort{{
			ContainerPort: 80, HostPort: pick(d, int32(0), 80, 80, 81), HostIP: pick(d, "", "", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::"), Protocol: pick(d, core.ProtocolTCP, core.ProtocolTCP, core.ProtocolUDP),
		}}
	}
	return c
}

func (d dice) amounts(large bool) core.ResourceList {
	out := core.ResourceList{}
	if d.chance(80) {
		out[core.ResourceCPU] = resource.MustParse(pick(d, "0", "100m", "500m", "1", "1500m"))
	}
	if d.chance(80) {
		out[core.ResourceMemory] = resource.MustParse(pick(d, "0", "64Mi", "1Gi", "2Gi", "3Gi"))
	}
	if large && d.chance(30) {
		out[gpus] = resource.MustParse("1")
	}
	if large && d.chance(10) {
		out[hca] = resource.MustParse("1")
	}
	if d.chance(10) {
		out[core.ResourceEphemeralStorage] = resource.MustParse(pick(d, "1Gi", "9Gi"))
	}
	return out
}

// nodeAffinity makes node affinity, with some chance by the node's name. The scheduler does not support the
// name in a volume's affinity.
func (d dice) nodeAffinity(byName int) *core.NodeAffinity {
	s := &core.NodeSelector{}
	for range 1 + d.IntN(2) {
		term := core.NodeSelectorTerm{}
		for range d.IntN(3) {
			r := core.NodeSelectorRequirement{Key: pick(d, zone, rack, tier), Operator: pick(d, core.NodeSelectorOpIn, core.NodeSelectorOpNotIn, core.NodeSelectorOpExists, core.NodeSelectorOpDoesNotExist, core.NodeSelectorOpGt, core.NodeSelectorOpLt)}
			switch r.Operator {
			case core.NodeSelectorOpDoesNotExist:
				r.Key = tier
			case core.NodeSelectorOpIn, core.NodeSelectorOpNotIn:
				r.Values = append(some(d, 50, "a", "r1", "gold"), pick(d, "b", "c", "r2", "5"))
			case core.NodeSelectorOpGt, core.NodeSelectorOpLt:
				r.Values = []string{pick(d, "4", "6")}
			}
			term.MatchExpressions = append(term.MatchExpressions, r)
		}
		if d.chance(byName) {
			term.MatchFields = []core.NodeSelectorRequirement{{Key: meta.ObjectNameField, Operator: pick(d, core.NodeSelectorOpIn, core.NodeSelectorOpNotIn), Values: []string{pick(d, "n0", "n1")}}}
		}
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, term)
	}
	return &core.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}
}

func (d dice) selector() *meta.LabelSelector {
	switch d.IntN(8) {
	case 0:
		return nil
	case 1:
		return &meta.LabelSelector{}
	case 2:
		return &meta.LabelSelector{MatchExpressions: []meta.LabelSelectorRequirement{{Key: "version", Operator: pick(d, meta.LabelSelectorOpExists, meta.LabelSelectorOpDoesNotExist)}}}
	case 3:
		return &meta.LabelSelector{MatchExpressions: []meta.LabelSelectorRequirement{
			{Key: "version", Operator: meta.LabelSelectorOpExists}, {Key: "version", Operator: meta.LabelSelectorOpNotIn, Values: []string{pick(d, "1", "2")}},
		}}
	case 4:
		return &meta.LabelSelector{MatchExpressions: []meta.LabelSelectorRequirement{{Key: "app", Operator: pick(d, meta.LabelSelectorOpIn, meta.LabelSelectorOpNotIn), Values: []string{"a"}}}}
	}
	return &meta.LabelSelector{MatchLabels: map[string]string{"app": pick(d, "a", "b")}}
}

// terms makes affinity terms of a pod with these labels.
func (d dice) terms(labels map[string]string) (out []core.PodAffinityTerm) {
	for range 1 + d.IntN(2) {
		t := core.PodAffinityTerm{LabelSelector: d.selector(), TopologyKey: pick(d, zone, host, rack)}
		if d.chance(20) {
			t.Namespaces = some(d, 60, "blue", "red")
		}
		if d.chance(20) {
			t.NamespaceSelector = pick(d, &meta.LabelSelector{}, &meta.LabelSelector{MatchLabels: map[string]string{"team": pick(d, "0", "1", "2")}})
		}
		if d.chance(20) && t.LabelSelector != nil && t.LabelSelector.MatchLabels != nil {
			d.narrow(&t, labels)
		}
		out = append(out, t)
	}
	return out
}

// narrow restricts an affinity term to pods with the same value of a label, or with another value. It writes
// the term as the API server stores it (1.37, pkg/registry/core/pod).
func (d dice) narrow(t *core.PodAffinityTerm, labels map[string]string) {
	r := meta.LabelSelectorRequirement{Key: "version", Operator: meta.LabelSelectorOpIn, Values: []string{labels["version"]}}
	if d.chance(50) {
		t.MatchLabelKeys = []string{r.Key}
	} else {
		t.MismatchLabelKeys, r.Operator = []string{r.Key}, meta.LabelSelectorOpNotIn
	}
	if _, has := labels[r.Key]; has {
		t.LabelSelector.MatchExpressions = append(t.LabelSelector.MatchExpressions, r)
	}
}

func (d dice) spread(key string) core.TopologySpreadConstraint {
	c := core.TopologySpreadConstraint{MaxSkew: int32(1 + d.IntN(2)), TopologyKey: key, WhenUnsatisfiable: core.DoNotSchedule, LabelSelector: d.selector()}
	if d.chance(20) {
		c.WhenUnsatisfiable = core.ScheduleAnyway
	} else if d.chance(25) {
		c.MinDomains = ptr.To(int32(1 + d.IntN(3)))
	}
	if d.chance(30) {
		c.NodeAffinityPolicy = ptr.To(pick(d, core.NodeInclusionPolicyHonor, core.NodeInclusionPolicyIgnore))
	}
	if d.chance(40) {
		c.NodeTaintsPolicy = ptr.To(pick(d, core.NodeInclusionPolicyHonor, core.NodeInclusionPolicyIgnore))
	}
	if d.chance(20) && c.LabelSelector != nil {
		c.MatchLabelKeys = []string{"version"}
	}
	return c
}
