package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// MaxDecisions bounds the decisions in a pool's status.
const MaxDecisions = 5

// Decision is an action on a pool, successful or not.
type Decision struct {
	// Time of the decision.
	Time metav1.Time `json:"time"`
	// Action taken: scale-up, remove-node, drain, replace, repartition, uncordon,
	// rollback, reclaim or withdraw.
	Action string `json:"action"`
	// On is the node or pod it was done to; absent for the pool itself.
	// +optional
	On string `json:"on,omitempty"`
	// Reason is a word of docs/reasons.md.
	Reason string `json:"reason"`
	// Message for users.
	// +optional
	Message string `json:"message,omitempty"`
	// Failed: the action failed; the message has the reason.
	// +optional
	Failed bool `json:"failed,omitempty"`
}
