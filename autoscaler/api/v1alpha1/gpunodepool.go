package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodePoolLabel on a Node names the GPUNodePool it belongs to.
const NodePoolLabel = "gpuscale.io/pool"

// CordonAnnotation on a Node says what of ours made it unschedulable, where that
// is no repartition: "remove" while it is being given back, "drain" while its
// pods are asked to leave, "replace" while it makes room for another. Whoever
// finds it may undo it.
const CordonAnnotation = "gpuscale.io/cordoned-by"

// GPUNodePool is a group of equal GPU nodes that gpuscale may grow, shrink and
// repartition. The nodes with the label gpuscale.io/pool=<its name> are of it.
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
type GPUNodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

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

// GPUNodePoolSpec is what is wanted of a pool.
//
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || self.min <= self.max",message="min must not be above max"
// +kubebuilder:validation:XValidation:rule="has(self.provider.fixed) || has(self.min) && has(self.max)",message="min and max are needed, unless the provider is fixed"
// +kubebuilder:validation:XValidation:rule="!has(self.provider.fixed) || (!has(self.min) || self.min == 0) && (!has(self.max) || self.max == 0)",message="a fixed pool has as many nodes as there are: leave min and max out"
// +kubebuilder:validation:XValidation:rule="!has(self.interruptionsPerHour) || has(self.spot) && self.spot",message="interruptionsPerHour is for spot pools"
type GPUNodePoolSpec struct {
	// Min is the smallest size of the pool, in nodes. Required, except of a fixed
	// pool, where it is left out.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Min int32 `json:"min"` // a 0 is written, and so it is taken of a fixed pool, too
	// Max is the largest size of the pool, in nodes. Required, except of a fixed
	// pool, where it is left out.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Max int32 `json:"max"`
	// Provider makes and removes the nodes; fixed says that nobody does.
	Provider Provider `json:"provider"`
	// Template describes a node of this pool, for decisions about nodes that do
	// not exist yet, or do not show their cards yet.
	Template NodeTemplate `json:"template"`
	// PricePerHour of one node, a decimal number in whatever currency all pools use.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="a price must not be below 0"
	// +optional
	PricePerHour *resource.Quantity `json:"pricePerHour,omitempty"`
	// Spot says that nodes of this pool may be taken away at any time.
	// +optional
	Spot bool `json:"spot,omitempty"`
	// InterruptionsPerHour is how often one spot node is taken away, a decimal
	// number: "0.05" is once in twenty hours.
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 : !quantity(self).isLessThan(quantity("0"))`,message="a rate must not be below 0"
	// +optional
	InterruptionsPerHour *resource.Quantity `json:"interruptionsPerHour,omitempty"`
	// ReadyAfter is how long a node usually takes from request to ready; learned
	// from the pool's own history once there is one.
	// +optional
	ReadyAfter *metav1.Duration `json:"readyAfter,omitempty"`
	// ScaleDown says when nodes are given back.
	// +optional
	ScaleDown ScaleDown `json:"scaleDown,omitempty"`
	// MIG says what may be done to the layout of this pool's cards.
	// +optional
	MIG *MIG `json:"mig,omitempty"`
	// Freeze stops every action on this pool; decisions are still explained.
	// +optional
	Freeze bool `json:"freeze,omitempty"`
}

// Provider of nodes: exactly one block is set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.kwok), has(self.scale), has(self.asg), has(self.fixed)].filter(x, x).size() == 1",message="exactly one provider is needed: kwok, scale, asg or fixed"
type Provider struct {
	// KWOK makes Node objects for a cluster whose nodes are simulated by KWOK.
	// +optional
	KWOK *KWOKProvider `json:"kwok,omitempty"`
	// Scale sets the replicas of another resource that makes the nodes: a Cluster
	// API MachineDeployment, MachineSet or MachinePool, a static Karpenter
	// NodePool, or anything else with a scale subresource. Nodes are taken away
	// from the first four by name; anything else is only made larger.
	// +optional
	Scale *ScaleProvider `json:"scale,omitempty"`
	// ASG sets the size of an AWS Auto Scaling group and takes its instances
	// away by their ids.
	// +optional
	ASG *ASGProvider `json:"asg,omitempty"`
	// Fixed, written as "fixed: {}", is a set of machines that nobody makes. Its
	// nodes are those with the label gpuscale.io/pool=<name of the pool>, however
	// many there are; put the label on a node to add it. Their cards are cut,
	// counted and watched as in any pool, but no node is ever asked for, emptied to
	// be given back, replaced or deleted. Leave min and max out; scaleDown changes
	// nothing.
	// +optional
	Fixed *FixedProvider `json:"fixed,omitempty"`
}

// FixedProvider has nothing to set: the pool's label says which nodes it has.
type FixedProvider struct{}

// ScaleProvider names the resource whose replicas are the pool's nodes.
//
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
// +kubebuilder:validation:XValidation:rule="!has(self.interruptionQueue) || self.interruptionQueue.startsWith('https://')",message="an https URL is wanted"
type ASGProvider struct {
	// Name of the group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name"`
	// Region of the group, such as eu-west-1.
	// +kubebuilder:validation:Pattern=`^[a-z]{2}(-[a-z]+)+-[0-9]+$`
	// +kubebuilder:validation:MaxLength=32
	Region string `json:"region"`
	// InstanceType asked for the spot price, such as p5.48xlarge; left out, the
	// price is spec.pricePerHour alone.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	InstanceType string `json:"instanceType,omitempty"`
	// InterruptionQueue is the URL of the SQS queue into which EventBridge puts
	// spot interruption warnings and rebalance recommendations; left out, none
	// are read.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	InterruptionQueue string `json:"interruptionQueue,omitempty"`
}

// KWOKProvider makes Node objects itself.
type KWOKProvider struct {
	// ExternalBoot leaves out the annotation kwok.x-k8s.io/node=fake, so that
	// something else decides when, and whether, a new node comes up.
	// +optional
	ExternalBoot bool `json:"externalBoot,omitempty"`
}

// NodeTemplate describes a node of a pool.
type NodeTemplate struct {
	// Product of the cards, as in the node label nvidia.com/gpu.product
	// ("NVIDIA-H100-80GB-HBM3") or as gpuscale names it ("H100-80GB").
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Product string `json:"product"`
	// Cards per node.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Cards int32 `json:"cards"`
	// Labels of the node, besides the pool's own and the GPU labels.
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="!('gpuscale.io/pool' in self)",message="gpuscale.io/pool is the pool's own label: leave it out"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Taints of the node.
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Taints []Taint `json:"taints,omitempty"`
	// CPU the node can give to pods.
	CPU resource.Quantity `json:"cpu"`
	// Memory the node can give to pods.
	Memory resource.Quantity `json:"memory"`
}

// Taint of a node.
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

// ScaleDown says when nodes are given back.
type ScaleDown struct {
	// Disabled keeps every node.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
	// IdleAfter is how long a node must be without GPU pods before it may go.
	// Default 10m.
	// +optional
	IdleAfter *metav1.Duration `json:"idleAfter,omitempty"`
}

// MIG says what may be done to the layout of a pool's cards.
type MIG struct {
	// Actuator that changes layouts: "mig-manager" (the GPU Operator's, through
	// node labels, a card at a time that nobody uses), "agent" (gpuscale's own on
	// each node, which leaves busy instances running) or "none".
	// +kubebuilder:validation:Enum=mig-manager;agent;none
	// +kubebuilder:default=mig-manager
	Actuator string `json:"actuator,omitempty"`
	// BootLayout of each card of a new node: profile name to count, one entry a
	// card; a single entry stands for all cards.
	// +kubebuilder:validation:MaxItems=64
	// +optional
	BootLayout []map[string]int32 `json:"bootLayout,omitempty"`
	// AllowedProfiles that a repartition may create; empty means all.
	// +kubebuilder:validation:MaxItems=64
	// +optional
	AllowedProfiles []string `json:"allowedProfiles,omitempty"`
	// IdleAfter is how long an instance must be free before it may be
	// destroyed. Default 1m.
	// +optional
	IdleAfter *metav1.Duration `json:"idleAfter,omitempty"`
}

// GPUNodePoolStatus is what was found and decided last.
type GPUNodePoolStatus struct {
	// ObservedGeneration of the spec the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Size is the number of Node objects of the pool.
	// +optional
	Size int32 `json:"size"`
	// Target is the size last asked of the provider.
	// +optional
	Target int32 `json:"target"`
	// Ready nodes.
	// +optional
	Ready int32 `json:"ready"`
	// Upcoming nodes: asked for, not ready.
	// +optional
	Upcoming int32 `json:"upcoming"`
	// ReadyAfter is how long three of four nodes took from request to ready, as
	// learned; absent while too few have come to tell.
	// +optional
	ReadyAfter *metav1.Duration `json:"readyAfter,omitempty"`
	// Backoff of a pool whose provider failed; absent when all is well.
	// +optional
	Backoff *Backoff `json:"backoff,omitempty"`
	// Reason of the last decision about this pool.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message for people, to go with Reason.
	// +optional
	Message string `json:"message,omitempty"`
	// Conditions of the pool: Ready (of a fixed pool: all its nodes are), Valid,
	// ScalingLimited, and while there is something to say ForeignAutoscaler,
	// GrowOnly, UnusedCards.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// LastDecisions taken about the pool, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	LastDecisions []Decision `json:"lastDecisions,omitempty"`
	// Memory of the planner about this pool, persisted before anything is done.
	// +optional
	Memory PoolMemory `json:"memory,omitempty"`
}

// Backoff is how long a pool is not asked for more after failures.
type Backoff struct {
	// Failures in a row.
	Failures int32 `json:"failures"`
	// Until when the pool is not asked.
	Until metav1.Time `json:"until"`
}

// PoolMemory is what the planner must remember about a pool between rounds.
type PoolMemory struct {
	// +optional
	LastScaleUp *metav1.MicroTime `json:"lastScaleUp,omitempty"`
	// +optional
	LastScaleDown *metav1.MicroTime `json:"lastScaleDown,omitempty"`
	// LastRepartition by node name.
	// +optional
	LastRepartition map[string]metav1.MicroTime `json:"lastRepartition,omitempty"`
	// LastDrain is when the last drain of a node of the pool began or was given up.
	// +optional
	LastDrain *metav1.MicroTime `json:"lastDrain,omitempty"`
	// LastReplace is when a sick node of the pool was last replaced.
	// +optional
	LastReplace *metav1.MicroTime `json:"lastReplace,omitempty"`
	// SickSince is when a node with a sick card was first seen so, by node name.
	// +optional
	SickSince map[string]metav1.MicroTime `json:"sickSince,omitempty"`
	// Grown are the nodes asked for within the last hour, oldest first.
	// +optional
	// +listType=atomic
	Grown []Growth `json:"grown,omitempty"`
	// Removed are the nodes given back within the last ten minutes, oldest first.
	// +optional
	// +listType=atomic
	Removed []Growth `json:"removed,omitempty"`
	// Failures of repartitions by card, "node/0".
	// +optional
	Failures map[string]CardFailures `json:"failures,omitempty"`
	// Epoch of the replica that wrote this; one of an earlier epoch may no longer.
	// +optional
	Epoch *Epoch `json:"epoch,omitempty"`
}

// Epoch is one replica's turn at leading.
type Epoch struct {
	// Term counts the turns.
	Term int64 `json:"term"`
	// Holder of the lease in that turn.
	Holder string `json:"holder"`
}

// Growth is nodes asked for, or given back, at one time.
type Growth struct {
	At    metav1.MicroTime `json:"at"`
	Nodes int32            `json:"nodes"`
}

// CardFailures are repartitions of a card that failed in a row.
type CardFailures struct {
	Count int32 `json:"count"`
	// At is when the last one failed.
	At metav1.MicroTime `json:"at"`
}
