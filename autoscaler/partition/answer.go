package partition

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Values of a pool's spec.mig.actuator.
const (
	ActuatorManager = "mig-manager" // also the meaning of an empty Record.Actuator
	ActuatorAgent   = "agent"
)

// AgentAnnotation on a node has the progress of its agent's operation: each step before it is done,
// and the result in the end.
const AgentAnnotation = "gpuscale.io/mig-agent"

// AgentState is the progress of an agent's operation.
type AgentState string

// States of an agent's operation. All but AgentWorking are final.
const (
	AgentWorking  AgentState = "working"
	AgentDone     AgentState = "done"     // the GPU has the record's target layout
	AgentRestored AgentState = "restored" // the GPU has its former layout
	AgentFailed   AgentState = "failed"   // neither: Message has the reason
)

// Answer is the agent's answer to a Record.
type Answer struct {
	// ID of the record, and the number of the undo attempt (0: none).
	ID   string `json:"id"`
	Undo int    `json:"undo,omitempty"`

	State AgentState `json:"state"`
	// Step under way, or the last one: "destroy 1g@4:1".
	Step string `json:"step,omitempty"`
	// Back is set once the agent goes back by itself; Message has the reason.
	Back bool `json:"back,omitempty"`
	// Touched is set before the first change of the GPU.
	Touched bool `json:"touched,omitempty"`
	// Plugins are the UIDs of the device plugin's pods that still advertise the old layout; empty
	// until they are being replaced.
	Plugins []string `json:"plugins,omitempty"`
	// Message for users.
	Message string `json:"message,omitempty"`
	// At is when this was written.
	At time.Time `json:"at"`
}

// Final reports whether the agent has finished the operation.
func (a Answer) Final() bool { return a.State != AgentWorking }

// About reports whether a answers the current attempt of r.
func (a Answer) About(r Record) bool { return a.ID == r.ID && a.Undo == r.attempt() }

func (r Record) attempt() int {
	if r.Undo == nil {
		return 0
	}
	return r.Undo.Attempts
}

// maxAnswerBytes bounds an agent's annotation.
const maxAnswerBytes = 16 << 10

// ParseAnswer reads the annotation's text.
func ParseAnswer(text string) (Answer, error) {
	var a Answer
	if err := parseJSON(AgentAnnotation, text, maxAnswerBytes, &a); err != nil {
		return Answer{}, err
	}
	switch a.State {
	case AgentWorking, AgentDone, AgentRestored, AgentFailed:
	default:
		return Answer{}, fmt.Errorf("annotation %s: state %q: want working, done, restored or failed", AgentAnnotation, a.State)
	}
	if a.ID == "" {
		return Answer{}, fmt.Errorf("annotation %s: no id", AgentAnnotation)
	}
	return a, nil
}

// String renders the annotation's text.
func (a Answer) String() string { return renderJSON(a) }

// answerTo returns the agent's answer to r, if there is one.
func answerTo(node *corev1.Node, r Record) (Answer, bool) {
	a, err := ParseAnswer(node.Annotations[AgentAnnotation])
	return a, err == nil && a.About(r)
}
