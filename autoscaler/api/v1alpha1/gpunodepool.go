package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodePoolLabel on a Node names the GPUNodePool it belongs to.
const NodePoolLabel = "gpuscale.io/pool"

// CordonAnnotation on a Node names the gpuscale action, other than a repartition, that cordoned it:
// "drain" while pods are being evicted from the node, or while the empty node is about to be removed
// or replaced. Any replica of the autoscaler may undo the cordon.
const CordonAnnotation = "gpuscale.io/cordoned-by"

// GPUNodePool is a group of equal GPU nodes that gpuscale may scale and repartition. Its nodes have
// the label gpuscale.io/pool=<its name>.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=gpupool
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.spec.min`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.max`
// +kubebuilder:printcolumn:name="Target",type=integer,JSONPath=`.status.target`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Upcoming",type=integer,JSONPath=`.status.upcoming`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.operations) || oldSelf.status.operations == 0 || self.spec.provider == oldSelf.spec.provider",message="spec.provider cannot be changed while status.operations is not 0: set spec.freeze and wait"
// +kubebuilder:validation:XValidation:rule=`!has(oldSelf.status) || !has(oldSelf.status.operations) || oldSelf.status.operations == 0 || (has(self.spec.mig) ? self.spec.mig.actuator : "") == (has(oldSelf.spec.mig) ? oldSelf.spec.mig.actuator : "")`,message="spec.mig.actuator cannot be changed while status.operations is not 0: set spec.freeze and wait"
type GPUNodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Undecodable says why the stored object could not be decoded. Only its metadata is known then.
	// It is empty for an object that was decoded.
	Undecodable string `json:"-"`

	Spec   GPUNodePoolSpec   `json:"spec"`
	Status GPUNodePoolStatus `json:"status,omitempty"`
}

// GPUNodePoolList is a list of GPUNodePools.
//
// +kubebuilder:object:root=true
type GPUNodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GPUNodePool `json:"items"`
}

// GPUNodePoolSpec is the specification of a pool.
//
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || self.min <= self.max",message="min must not be above max"
// +kubebuilder:validation:XValidation:rule="has(self.provider.fixed) || has(self.min) && has(self.max)",message="min and max are needed, unless the provider is fixed"
// +kubebuilder:validation:XValidation:rule="!has(self.provider.fixed) || (!has(self.min) || self.min == 0) && (!has(self.max) || self.max == 0)",message="a fixed pool has as many nodes as there are: leave min and max out"
// +kubebuilder:validation:XValidation:rule="!has(self.interruptionsPerHour) || has(self.spot) && self.spot",message="interruptionsPerHour is for spot pools"
type GPUNodePoolSpec struct {
	// Min is the smallest size of the pool, in nodes: a smaller pool is scaled up to it. 0 allows a
	// pool without nodes. Required, except for a fixed pool, where it must be left out.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Min int32 `json:"min"` // 0 is written explicitly, so a fixed pool may have it
	// Max is the largest size to which the pool is scaled up, in nodes. Required, except for a fixed
	// pool, where it must be left out.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Max int32 `json:"max"`
	// Provider adds and removes the nodes. Exactly one of its blocks is set.
	Provider Provider `json:"provider"`
	// Template describes a node of this pool that does not exist yet, or does not show its GPUs yet.
	// Where ready nodes have less than it states, new nodes are expected to be like them.
	Template NodeTemplate `json:"template"`
	// PricePerHour of one node: a decimal number such as "55.04", in the same currency for all pools.
	// Without it, or with 0, a GPU costs as much as in the most expensive priced pool.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="a price must not be below 0"
	// +optional
	PricePerHour *resource.Quantity `json:"pricePerHour,omitempty"`
	// Priority comes before the price: of the pools that fit the pod and can add a node, those with the
	// highest number add it, as with cluster-autoscaler's priority expander. Default 0.
	// +optional
	Priority int32 `json:"priority,omitempty"`
	// Spot says that the provider may interrupt nodes of this pool at any time.
	// +optional
	Spot bool `json:"spot,omitempty"`
	// InterruptionsPerHour is the interruption rate of one node of a spot pool, a decimal number: "0.05"
	// is once in twenty hours. Pods that would lose work then prefer other pools. Default 0.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="a rate must not be below 0"
	// +optional
	InterruptionsPerHour *resource.Quantity `json:"interruptionsPerHour,omitempty"`
	// ReadyAfter is the usual time of a node from request to ready, such as 5m. Default 3m.
	// status.readyAfter, once it is measured, replaces it.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	ReadyAfter *metav1.Duration `json:"readyAfter,omitempty"`
	// ScaleDown controls when nodes are removed.
	// +optional
	ScaleDown ScaleDown `json:"scaleDown,omitempty"`
	// MIG controls the changes to the MIG layout of this pool's GPUs. Without it no layout is changed,
	// and the GPUs of a new node are expected without MIG.
	// +optional
	MIG *MIG `json:"mig,omitempty"`
	// Freeze stops every new action on this pool. A drain under way is cancelled; a repartition that has
	// changed a GPU is completed or rolled back. Decisions are still explained.
	// +optional
	Freeze bool `json:"freeze,omitempty"`
}

// Provider of nodes: exactly one block is set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.scale), has(self.asg), has(self.externalGRPC), has(self.fixed)].filter(x, x).size() == 1",message="exactly one provider is needed: scale, asg, externalGRPC or fixed"
type Provider struct {
	// Scale sets the replicas of a resource that makes the nodes: a Cluster API MachineDeployment,
	// MachineSet or MachinePool, a static Karpenter NodePool, or any other resource with a scale
	// subresource. With a MachinePool or one of those others, the pool is only scaled up, since no chosen
	// node can be removed.
	// +optional
	Scale *ScaleProvider `json:"scale,omitempty"`
	// ASG sets the size of an AWS Auto Scaling group, and terminates its instances by their IDs. The
	// group must have the tag gpuscale.io/pool=<name of the pool>.
	// +optional
	ASG *ASGProvider `json:"asg,omitempty"`
	// ExternalGRPC is a node group of a provider that speaks cluster-autoscaler's external gRPC
	// protocol.
	// +optional
	ExternalGRPC *ExternalGRPCProvider `json:"externalGRPC,omitempty"`
	// Fixed, written as "fixed: {}", is for machines that exist outside gpuscale. The pool's nodes are
	// those with the label gpuscale.io/pool=<name of the pool>. Their GPUs are repartitioned, counted and
	// monitored as in any pool, but no node is ever requested, drained for removal, replaced or deleted.
	// Leave min and max out; scaleDown has no effect.
	// +optional
	Fixed *FixedProvider `json:"fixed,omitempty"`
}

// ExternalGRPCProvider names a node group of a provider.
//
// +kubebuilder:object:generate=false
type ExternalGRPCProvider struct {
	// Name of the provider: a key of externalGRPC in the autoscaler's configuration file.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// NodeGroup is the ID of the group at the provider.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	NodeGroup string `json:"nodeGroup"`
}

// FixedProvider has no fields: the pool's label selects its nodes.
//
// +kubebuilder:object:generate=false
type FixedProvider struct{}

// ScaleProvider names the resource whose replicas are the pool's nodes.
//
// +kubebuilder:object:generate=false
// +kubebuilder:validation:XValidation:rule="self.kind != 'NodePool' || !self.apiVersion.startsWith('karpenter.sh/') || !has(self.__namespace__)",message="a Karpenter NodePool has no namespace: leave it out"
// +kubebuilder:validation:XValidation:rule="!self.apiVersion.startsWith('cluster.x-k8s.io/') || has(self.__namespace__)",message="Cluster API's resources need a namespace"
type ScaleProvider struct {
	// APIVersion of the resource, such as cluster.x-k8s.io/v1beta2.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`
	// Kind of the resource, such as MachineDeployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Namespace of the resource. Leave it out for a cluster-scoped one, such as a Karpenter NodePool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the resource.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ASGProvider names an AWS Auto Scaling group.
//
// +kubebuilder:object:generate=false
// +kubebuilder:validation:XValidation:rule="!has(self.interruptionQueue) || self.interruptionQueue.startsWith('https://')",message="must be an https URL"
type ASGProvider struct {
	// Name of the group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name"`
	// Region of the group, such as eu-west-1.
	// +kubebuilder:validation:Pattern=`^[a-z]{2,4}(-[a-z]+)+-[0-9]+$`
	// +kubebuilder:validation:MaxLength=32
	Region string `json:"region"`
	// InstanceType of the group, such as p5.48xlarge: a label of new nodes. In a spot pool without
	// pricePerHour, its spot price in US dollars is the price: that of the group's most expensive zone.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	InstanceType string `json:"instanceType,omitempty"`
	// InterruptionQueue is the URL of the SQS queue into which EventBridge puts spot interruption
	// warnings and rebalance recommendations. Without it none are read. Other messages are deleted: the
	// queue must have no other consumer.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	InterruptionQueue string `json:"interruptionQueue,omitempty"`
}

// NodeTemplate describes a node of a pool.
type NodeTemplate struct {
	// Product of the GPUs, as in the node label nvidia.com/gpu.product
	// ("NVIDIA-H100-80GB-HBM3") or as gpuscale names it ("H100-80GB").
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Product string `json:"product"`
	// GPUs per node.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	GPUs int32 `json:"gpus"`
	// Sharing is how containers share each GPU: by NVIDIA's device plugin (time-slicing, MPS), or by
	// another project's scheduler. Leave it out where a container gets whole GPUs or MIG devices.
	// +optional
	Sharing *GPUSharing `json:"sharing,omitempty"`
	// Labels of the node that pods select, such as topology.kubernetes.io/zone. The pool's label and the
	// GPU labels are added.
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="!('gpuscale.io/pool' in self)",message="gpuscale.io/pool is the pool's own label: leave it out"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Taints of the node.
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Taints []Taint `json:"taints,omitempty"`
	// StartupTaints are taints of a new node that are removed once it is set up, by a network agent for
	// example. Pods need not tolerate them. A node that has one is upcoming.
	// +kubebuilder:validation:MaxItems=50
	// +optional
	StartupTaints []Taint `json:"startupTaints,omitempty"`
	// CPU of the node that is allocatable to pods, those of DaemonSets included.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="cpu must not be below 0"
	CPU resource.Quantity `json:"cpu"`
	// Memory of the node that is allocatable to pods, those of DaemonSets included.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="memory must not be below 0"
	Memory resource.Quantity `json:"memory"`
	// Resources of the node besides GPUs, CPU and memory, such as rdma/hca or hugepages-2Mi. If none is
	// stated, they are learned from the pool's nodes.
	// +kubebuilder:validation:MaxProperties=50
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// GPUSharing has the fields of "sharing" in the configuration of NVIDIA's device plugin, or names
// another project that divides GPUs.
// +kubebuilder:object:generate=false
// +kubebuilder:validation:XValidation:rule="(self.strategy in ['time-slicing', 'mps']) == has(self.replicas)",message="time-slicing and mps need replicas, and no other strategy has them"
// +kubebuilder:validation:XValidation:rule="self.strategy in ['time-slicing', 'mps'] || !(has(self.renameByDefault) && self.renameByDefault) && !(has(self.failRequestsGreaterThanOne) && self.failRequestsGreaterThanOne)",message="only time-slicing and mps have renameByDefault and failRequestsGreaterThanOne"
type GPUSharing struct {
	// Strategy is time-slicing or mps of NVIDIA's device plugin, or the project that divides the GPUs:
	// gpushare (cGPU too), qgpu, vcuda, elasticgpu, nano-gpu, hami, volcano (its vGPU) or volcano-gpushare.
	// +kubebuilder:validation:Enum=time-slicing;mps;gpushare;qgpu;vcuda;elasticgpu;nano-gpu;hami;volcano;volcano-gpushare
	// +kubebuilder:default=time-slicing
	// +optional
	Strategy string `json:"strategy,omitempty"`
	// Replicas is the number of shares of each GPU. Required for time-slicing and mps, invalid for others.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=64
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// RenameByDefault says that the device plugin advertises replicas as nvidia.com/gpu.shared; quotas
	// count each as its share of a GPU. Without it they are nvidia.com/gpu, and each counts as a GPU.
	// +optional
	RenameByDefault bool `json:"renameByDefault,omitempty"`
	// FailRequestsGreaterThanOne says that the device plugin rejects a container that requests more than
	// one replica. A pod with such a container gets no node of the pool.
	// +optional
	FailRequestsGreaterThanOne bool `json:"failRequestsGreaterThanOne,omitempty"`
}

// Taint of a node.
//
// +kubebuilder:object:generate=false
type Taint struct {
	// Key of the taint.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key"`
	// Value of the taint.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Value string `json:"value,omitempty"`
	// Effect of the taint.
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect string `json:"effect"`
}

// ScaleDown controls when nodes are removed.
type ScaleDown struct {
	// Disabled keeps every node: empty and underused ones are not removed, unhealthy ones not replaced.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
	// IdleAfter is how long a node must be empty (no pods but those of DaemonSets) before it may be
	// removed. Default: as long as a new node takes, 1m to 10m. After nodes of the pool were requested
	// within ten minutes of a removal, the default is 10m for three hours.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	IdleAfter *metav1.Duration `json:"idleAfter,omitempty"`
}

// MIG controls the changes to the MIG layout of a pool's GPUs.
type MIG struct {
	// Actuator that changes layouts. "mig-manager" is the GPU Operator's: through node labels, one unused
	// GPU at a time. "agent" is gpuscale's own on each node: it leaves busy GPU instances running. With
	// "none" no layout is changed.
	// +kubebuilder:validation:Enum=mig-manager;agent;none
	// +kubebuilder:default=mig-manager
	Actuator string `json:"actuator,omitempty"`
	// BootLayout states the MIG layout that new nodes come up with; it does not set it. One entry per GPU,
	// or one for all: profile name to number of GPU instances, such as {3g.40gb: 2}. Empty: without MIG.
	// +kubebuilder:validation:MaxItems=64
	// +optional
	BootLayout []map[string]int32 `json:"bootLayout,omitempty"`
	// AllowedProfiles are the profiles that a repartition may create, such as 1g.10gb. Empty allows all
	// profiles of the product.
	// +kubebuilder:validation:MaxItems=64
	// +optional
	AllowedProfiles []string `json:"allowedProfiles,omitempty"`
	// IdleAfter is how long a GPU instance must be free before a repartition may destroy it. Default 1m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	IdleAfter *metav1.Duration `json:"idleAfter,omitempty"`
}
