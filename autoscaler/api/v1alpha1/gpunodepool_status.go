package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GPUNodePoolStatus is the observed state of a pool and the latest decisions.
type GPUNodePoolStatus struct {
	// ObservedGeneration is the metadata.generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Size is the number of Node objects of the pool, ready or not.
	// +optional
	Size int32 `json:"size"`
	// Target is the size last requested from the provider, in nodes.
	// +optional
	Target int32 `json:"target"`
	// Ready is the number of ready nodes.
	// +optional
	Ready int32 `json:"ready"`
	// Upcoming is the number of nodes that are requested and not ready yet.
	// +optional
	Upcoming int32 `json:"upcoming"`
	// Operations is the number of nodes that are being repartitioned or drained. While it is not 0,
	// spec.provider and spec.mig.actuator cannot be changed.
	// +optional
	Operations int32 `json:"operations"`
	// ReadyAfter is the 75th percentile of the time from request to ready of the last 16 new nodes.
	// It is absent before the third one.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	// +optional
	ReadyAfter *metav1.Duration `json:"readyAfter,omitempty"`
	// Backoff of a pool whose provider failed to add nodes. It is absent without failures.
	// +optional
	Backoff *Backoff `json:"backoff,omitempty"`
	// Reason of the last decision about this pool (docs/reasons.md), or why the pool is not valid.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message has the details of the reason.
	// +optional
	Message string `json:"message,omitempty"`
	// Conditions of the pool. Valid: the pool and its target can be used. Ready: spec.min nodes are
	// ready; of a fixed pool, all. ScalingLimited: a limit prevents a scale-up. Present only while they
	// apply: ForeignAutoscaler, GrowOnly, UnusedGPUs.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// LastDecisions are the last five actions on the pool, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	LastDecisions []Decision `json:"lastDecisions,omitempty"`
	// PlannerState is what the planner records for the next reconciles. It is written before any action.
	// +optional
	PlannerState PlannerState `json:"plannerState,omitempty"`
}

// Backoff is a pause of scale-ups after failures.
type Backoff struct {
	// Failures is the number of failures in a row.
	// +kubebuilder:validation:Minimum=0
	Failures int32 `json:"failures"`
	// UntilTime is when the pool may scale up again.
	UntilTime metav1.Time `json:"untilTime"`
}

// MaxPlannerStates bounds each map and list of a PlannerState.
const MaxPlannerStates = 500

// PlannerState is the planner's state of a pool between reconciles.
type PlannerState struct {
	// +optional
	LastScaleUpTime *metav1.MicroTime `json:"lastScaleUpTime,omitempty"`
	// +optional
	LastScaleDownTime *metav1.MicroTime `json:"lastScaleDownTime,omitempty"`
	// LastRepartitionTime is when a node was last repartitioned, by node name, the latest 500.
	// +kubebuilder:validation:MaxProperties=500
	// +optional
	LastRepartitionTime map[string]metav1.MicroTime `json:"lastRepartitionTime,omitempty"`
	// LastDrainTime is when the last drain of a node of the pool began or was abandoned.
	// +optional
	LastDrainTime *metav1.MicroTime `json:"lastDrainTime,omitempty"`
	// LastReplaceTime is when an unhealthy node of the pool was last replaced.
	// +optional
	LastReplaceTime *metav1.MicroTime `json:"lastReplaceTime,omitempty"`
	// SickSinceTime is since when a node has an unhealthy GPU, by node name, the latest 500.
	// +kubebuilder:validation:MaxProperties=500
	// +optional
	SickSinceTime map[string]metav1.MicroTime `json:"sickSinceTime,omitempty"`
	// Grown counts the nodes requested within the last hour, oldest first.
	// +kubebuilder:validation:MaxItems=500
	// +optional
	// +listType=atomic
	Grown []Growth `json:"grown,omitempty"`
	// Removed counts the nodes removed within the last ten minutes, oldest first.
	// +kubebuilder:validation:MaxItems=500
	// +optional
	// +listType=atomic
	Removed []Growth `json:"removed,omitempty"`
	// Failures of repartitions by GPU ("node/0" is GPU 0 of the node) and of drains by node, the latest
	// 500.
	// +kubebuilder:validation:MaxProperties=500
	// +optional
	Failures map[string]GPUFailures `json:"failures,omitempty"`
	// Epoch of the replica that wrote this. A replica of an earlier epoch must not write.
	// +optional
	Epoch *Epoch `json:"epoch,omitempty"`
}

// Epoch is one replica's term as leader.
//
// +kubebuilder:object:generate=false
type Epoch struct {
	// Term is the number of the term, increasing by one.
	Term int64 `json:"term"`
	// Holder is the identity of the replica that had the lease in that term.
	Holder string `json:"holder"`
}

// Growth is a number of nodes requested, or removed, at one time.
type Growth struct {
	Time metav1.MicroTime `json:"time"`
	// +kubebuilder:validation:Minimum=0
	Nodes int32 `json:"nodes"`
}

// GPUFailures counts failures in a row: repartitions of a GPU, or drains of a node.
type GPUFailures struct {
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`
	// LastTime is when the last one failed.
	LastTime metav1.MicroTime `json:"lastTime"`
}

// MaxDecisions bounds the decisions in a pool's status.
const MaxDecisions = 5

// Decision is an action on a pool, successful or not.
type Decision struct {
	// Time of the decision.
	Time metav1.Time `json:"time"`
	// Action taken: scale-up, remove-node, drain, replace, repartition, uncordon,
	// rollback, reclaim or withdraw.
	Action string `json:"action"`
	// On is the node or pod that the action was on. It is absent where that was the pool itself.
	// +optional
	On string `json:"on,omitempty"`
	// Reason is a word of docs/reasons.md.
	Reason string `json:"reason"`
	// Message has the details of the reason or, of a failed action, the error.
	// +optional
	Message string `json:"message,omitempty"`
	// Failed says that the action failed.
	// +optional
	Failed bool `json:"failed,omitempty"`
}
