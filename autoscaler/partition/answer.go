package partition

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Actuators that a pool may name.
const (
	ActuatorManager = "mig-manager" // also what an empty Record.Actuator means
	ActuatorAgent   = "agent"
)

// AgentAnnotation on a node is its agent's diary of the operation under way: each
// step stands here before it is done, and in the end what became of it.
const AgentAnnotation = "gpuscale.io/mig-agent"

// AgentState is how far an agent has come.
type AgentState string

// States of an agent's operation. All but AgentWorking are final.
const (
	AgentWorking  AgentState = "working"
	AgentDone     AgentState = "done"     // the card is as the record wants it
	AgentRestored AgentState = "restored" // the card is as it was before
	AgentFailed   AgentState = "failed"   // neither: Message says why
)

// Answer is what the agent has to say about a Record.
type Answer struct {
	// ID of the record, and the attempt at going back that it is about (0: none).
	ID   string `json:"id"`
	Undo int    `json:"undo,omitempty"`

	State AgentState `json:"state"`
	// Step being done, or done last: "destroy 1g@4:1".
	Step string `json:"step,omitempty"`
	// Back is set once the agent goes back by itself; Message says why.
	Back bool `json:"back,omitempty"`
	// Touched is set before the first change of the card.
	Touched bool `json:"touched,omitempty"`
	// Plugins are the UIDs of the device plugin's pods that still offer the old
	// layout; empty until they are being replaced.
	Plugins []string `json:"plugins,omitempty"`
	// Message for people.
	Message string `json:"message,omitempty"`
	// At is when this was written.
	At time.Time `json:"at"`
}

// Final reports whether nothing more will come of it.
func (a Answer) Final() bool { return a.State != AgentWorking }

// About reports whether a is about r as it stands.
func (a Answer) About(r Record) bool { return a.ID == r.ID && a.Undo == r.attempt() }

func (r Record) attempt() int {
	if r.Undo == nil {
		return 0
	}
	return r.Undo.Attempts
}

// maxAnswerBytes bounds what an agent's annotation is believed to say.
const maxAnswerBytes = 16 << 10

// ParseAnswer reads the annotation's text.
func ParseAnswer(text string) (Answer, error) {
	if len(text) > maxAnswerBytes {
		return Answer{}, fmt.Errorf("annotation %s: %d bytes, at most %d", AgentAnnotation, len(text), maxAnswerBytes)
	}
	var a Answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return Answer{}, fmt.Errorf("annotation %s: %w", AgentAnnotation, err)
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
func (a Answer) String() string {
	b, err := json.Marshal(a)
	if err != nil {
		return "" // a time beyond year 9999; ParseAnswer refuses the result
	}
	return string(b)
}

// answerTo is the agent's answer to r, and whether there is one.
func answerTo(node *corev1.Node, r Record) (Answer, bool) {
	a, err := ParseAnswer(node.Annotations[AgentAnnotation])
	return a, err == nil && a.About(r)
}
