package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodePoolLabel on a Node names the GPUNodePool it belongs to.
const NodePoolLabel = "gpuscale.io/pool"

// CordonAnnotation on a Node is the gpuscale action, other than a repartition, that made it
// unschedulable: "drain" while its pods are being evicted or, empty, it is about to be removed or
// replaced. Any replica may undo it.
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

	// Undecodable is why the stored object could not be decoded; only its metadata is known then. It
	// is empty for an object that could be decoded.
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
	// Min is the smallest size of the pool, in nodes. Required, except for a fixed pool, where it
	// must be left out.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Min int32 `json:"min"` // 0 is written explicitly, so a fixed pool may have it
	// Max is the largest size of the pool, in nodes. Required, except for a fixed pool, where it
	// must be left out.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Max int32 `json:"max"`
	// Provider makes and removes the nodes; with fixed, the nodes are given.
	Provider Provider `json:"provider"`
	// Template describes a node of this pool, for decisions about nodes that do
	// not exist yet, or do not show their GPUs yet.
	Template NodeTemplate `json:"template"`
	// PricePerHour of one node, a decimal number in any currency, the same for all pools.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="a price must not be below 0"
	// +optional
	PricePerHour *resource.Quantity `json:"pricePerHour,omitempty"`
	// Priority comes before the price, as in cluster-autoscaler's priority expander: nodes are added to
	// the pools of the highest priority that fit the pod and can add one. Default 0.
	// +optional
	Priority int32 `json:"priority,omitempty"`
	// Spot: nodes of this pool may be interrupted at any time.
	// +optional
	Spot bool `json:"spot,omitempty"`
	// InterruptionsPerHour is the interruption rate of one spot node, a decimal number: "0.05" is
	// once in twenty hours.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="a rate must not be below 0"
	// +optional
	InterruptionsPerHour *resource.Quantity `json:"interruptionsPerHour,omitempty"`
	// ReadyAfter is the usual time of a node from request to ready; learned from the pool's history
	// once there is one.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	ReadyAfter *metav1.Duration `json:"readyAfter,omitempty"`
	// ScaleDown controls when nodes are removed.
	// +optional
	ScaleDown ScaleDown `json:"scaleDown,omitempty"`
	// MIG controls the changes to the layout of this pool's GPUs.
	// +optional
	MIG *MIG `json:"mig,omitempty"`
	// Freeze stops every action on this pool; decisions are still explained.
	// +optional
	Freeze bool `json:"freeze,omitempty"`
}

// Provider of nodes: exactly one block is set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.scale), has(self.asg), has(self.externalGRPC), has(self.fixed)].filter(x, x).size() == 1",message="exactly one provider is needed: scale, asg, externalGRPC or fixed"
type Provider struct {
	// Scale sets the replicas of another resource that makes the nodes: a Cluster API
	// MachineDeployment or MachineSet, a static Karpenter NodePool, or anything else with a scale
	// subresource. Nodes of the first three are removed by name; anything else, and a MachinePool, is
	// only scaled up.
	// +optional
	Scale *ScaleProvider `json:"scale,omitempty"`
	// ASG sets the size of an AWS Auto Scaling group and terminates its instances by their IDs.
	// +optional
	ASG *ASGProvider `json:"asg,omitempty"`
	// ExternalGRPC is a node group of a provider that speaks cluster-autoscaler's external gRPC
	// protocol.
	// +optional
	ExternalGRPC *ExternalGRPCProvider `json:"externalGRPC,omitempty"`
	// Fixed, written as "fixed: {}", is a set of machines that exist outside gpuscale. Its nodes
	// are those with the label gpuscale.io/pool=<name of the pool>; put the label on a node to add
	// it. Their GPUs are repartitioned, counted and monitored as in any pool, but no node is ever
	// requested, drained for removal, replaced or deleted. Leave min and max out; scaleDown has no
	// effect.
	// +optional
	Fixed *FixedProvider `json:"fixed,omitempty"`
}

// ExternalGRPCProvider names a node group of a provider.
//
// +kubebuilder:object:generate=false
type ExternalGRPCProvider struct {
	// Name of the provider in the autoscaler's configuration, which has its address.
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
	// Namespace of the resource; left out for one that has none.
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
	// InstanceType whose spot price is read, such as p5.48xlarge; without it the price is
	// spec.pricePerHour.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	InstanceType string `json:"instanceType,omitempty"`
	// InterruptionQueue is the URL of the SQS queue into which EventBridge puts spot interruption
	// warnings and rebalance recommendations; without it none are read.
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
	// Sharing is how each GPU is shared between containers: by NVIDIA's device plugin (time-slicing,
	// MPS), or by another project's scheduler; leave it out where whole GPUs are given.
	// +optional
	Sharing *GPUSharing `json:"sharing,omitempty"`
	// Labels of the node, besides the pool's own and the GPU labels.
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="!('gpuscale.io/pool' in self)",message="gpuscale.io/pool is the pool's own label: leave it out"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Taints of the node.
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Taints []Taint `json:"taints,omitempty"`
	// StartupTaints are taints that a new node has until something has set it up, such as a network
	// agent. Pods need not tolerate them; a node that has one is upcoming.
	// +kubebuilder:validation:MaxItems=50
	// +optional
	StartupTaints []Taint `json:"startupTaints,omitempty"`
	// CPU allocatable to pods.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="cpu must not be below 0"
	CPU resource.Quantity `json:"cpu"`
	// Memory allocatable to pods.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="memory must not be below 0"
	Memory resource.Quantity `json:"memory"`
	// Resources are what a node offers to pods besides: rdma/hca, hugepages-2Mi. They are learned from the
	// pool's nodes where none is stated. GPUs are stated by product, gpus and sharing.
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
	// Strategy is time-slicing or mps, or what divides the GPUs: gpushare (cGPU too), qgpu, vcuda,
	// elasticgpu, nano-gpu, hami, volcano (its vGPU) or volcano-gpushare.
	// +kubebuilder:validation:Enum=time-slicing;mps;gpushare;qgpu;vcuda;elasticgpu;nano-gpu;hami;volcano;volcano-gpushare
	// +kubebuilder:default=time-slicing
	// +optional
	Strategy string `json:"strategy,omitempty"`
	// Replicas of each GPU, of time-slicing and mps.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=64
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// RenameByDefault advertises replicas as nvidia.com/gpu.shared, and quotas count each as its share
	// of a GPU. Otherwise they are advertised as nvidia.com/gpu, and count as GPUs.
	// +optional
	RenameByDefault bool `json:"renameByDefault,omitempty"`
	// FailRequestsGreaterThanOne fails containers that request more than one. Pods with such a
	// container get no node of the pool.
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
	// Disabled keeps every node.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
	// IdleAfter is how long a node must be without GPU pods before it may be removed. By default that
	// is as long as a new node takes, 1m to 10m; it is 10m for three hours after nodes of the pool
	// were requested within ten minutes of a removal.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	IdleAfter *metav1.Duration `json:"idleAfter,omitempty"`
}

// MIG controls the changes to the layout of a pool's GPUs.
type MIG struct {
	// Actuator that changes layouts: "mig-manager" (the GPU Operator's, through node labels, one
	// unused GPU at a time), "agent" (gpuscale's own on each node, which leaves busy instances
	// running) or "none".
	// +kubebuilder:validation:Enum=mig-manager;agent;none
	// +kubebuilder:default=mig-manager
	Actuator string `json:"actuator,omitempty"`
	// BootLayout of each GPU of a new node: profile name to count, one entry per GPU; a single
	// entry applies to all GPUs.
	// +kubebuilder:validation:MaxItems=64
	// +optional
	BootLayout []map[string]int32 `json:"bootLayout,omitempty"`
	// AllowedProfiles that a repartition may create; empty means all.
	// +kubebuilder:validation:MaxItems=64
	// +optional
	AllowedProfiles []string `json:"allowedProfiles,omitempty"`
	// IdleAfter is how long an instance must be free before it may be
	// destroyed. Default 1m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	IdleAfter *metav1.Duration `json:"idleAfter,omitempty"`
}
