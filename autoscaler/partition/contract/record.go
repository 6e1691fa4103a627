package contract

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// RecordAnnotation on a node has the operation under way on it.
const RecordAnnotation = "gpuscale.io/repartition"

// Record is an operation under way, recorded on its node. After any crash, it has all that the next
// reconcile requires to finish or undo the operation.
type Record struct {
	ID    string `json:"id"`
	GPU   int    `json:"gpu"`
	Model string `json:"model"`
	// UUID of the GPU, for an agent: indices change when a GPU falls off the bus.
	UUID string `json:"uuid,omitempty"`
	// Actuator is ActuatorAgent, or empty for mig-manager.
	Actuator string `json:"actuator,omitempty"`
	// Selected is set when the actuator is signalled to begin. The agent begins when it is set. For
	// mig-manager it is written together with the label, which others may change afterwards.
	Selected bool `json:"selected,omitempty"`
	// Target and Before are layouts in slices, "3g@0:4 3g@4:4", which are readable without a table.
	Target string `json:"target"`
	Before string `json:"before"`
	// Config is the name to select; Previous the one to go back to. Operations of an agent have
	// neither.
	Config   string `json:"config"`
	Previous string `json:"previous"`
	// Expect is what the node advertises with the target layout.
	Expect map[string]int64 `json:"expect"`
	// Was is what it advertised before.
	Was map[string]int64 `json:"was"`
	// Pods that were on the node at the decision, in the form of PodOf. A pod with GPUs that is not among
	// them may have been allocated the GPU: the label is then not set.
	Pods []string `json:"pods,omitempty"`
	// Cordoned is true when this operation made the node unschedulable; false if it was already.
	Cordoned bool      `json:"cordoned"`
	Started  time.Time `json:"started"`
	Deadline time.Time `json:"deadline"`
	// LabelAfter is when the label may be set: the kubelet takes time to mount a new config into
	// mig-manager's pod.
	LabelAfter time.Time `json:"labelAfter"`
	// Undo is set once the operation is being rolled back.
	Undo *Undo `json:"undo,omitempty"`
}

// Undo is the progress of a rollback.
type Undo struct {
	Since    time.Time `json:"since"` // of the last attempt
	Attempts int       `json:"attempts"`
}

// PodOf identifies a pod in a Record: a later pod of the same name has another UID, and may have
// another device.
func PodOf(namespace, name, uid string) string { return namespace + "/" + name + " " + uid }

// RecordOf parses the record on a node; ok is false where there is none. On an error the node must
// be left unchanged.
func RecordOf(node *corev1.Node) (r Record, ok bool, err error) {
	text, ok := node.Annotations[RecordAnnotation]
	if !ok {
		return Record{}, false, nil
	}
	r, err = ParseRecord(text)
	return r, true, err
}

// Bounds of a record. An operation with a deadline of a day was recorded by a clock that jumped,
// and would never be undone.
const (
	maxRecordBytes   = 256 << 10
	maxRecordMinutes = 24 * 60
)

// ParseRecord reads the annotation's text.
func ParseRecord(text string) (Record, error) {
	var r Record
	if err := parseJSON(RecordAnnotation, text, maxRecordBytes, &r); err != nil {
		return Record{}, err
	}
	switch {
	case r.ID == "":
		return Record{}, fmt.Errorf("annotation %s: the id is missing", RecordAnnotation)
	case r.Actuator != "" && r.Actuator != ActuatorAgent:
		return Record{}, fmt.Errorf("annotation %s: actuator %q: want %s or none", RecordAnnotation, r.Actuator, ActuatorAgent)
	case r.Actuator == "" && (r.Config == "" || r.Previous == ""):
		return Record{}, fmt.Errorf("annotation %s: the config or the previous config is missing", RecordAnnotation)
	case r.GPU < 0:
		return Record{}, fmt.Errorf("annotation %s: invalid GPU index %d", RecordAnnotation, r.GPU)
	case r.Deadline.IsZero():
		return Record{}, fmt.Errorf("annotation %s: the deadline is missing", RecordAnnotation)
	case !r.Started.IsZero() && r.Deadline.Sub(r.Started) > maxRecordMinutes*time.Minute:
		return Record{}, fmt.Errorf("annotation %s: deadline %s, %s after the start: want at most %d minutes",
			RecordAnnotation, r.Deadline.UTC().Format(time.RFC3339), r.Deadline.Sub(r.Started), maxRecordMinutes)
	}
	return r, nil
}

// String renders the annotation's text.
func (r Record) String() string { return renderJSON(r) }

// TargetLayout parses Target; nil where it cannot be parsed.
func (r Record) TargetLayout() mig.Layout {
	l, err := mig.ParseSlices(r.Target)
	if err != nil {
		return nil
	}
	return l
}

// Node labels of mig-manager.
const (
	ConfigLabel = "nvidia.com/mig.config"
	StateLabel  = "nvidia.com/mig.config.state"
)

// Values of StateLabel.
const (
	StatePending = "pending"
	StateSuccess = "success"
	StateFailed  = "failed"
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
func (a Answer) About(r Record) bool { return a.ID == r.ID && a.Undo == r.Attempt() }

// Attempt is the number of the undo attempt, 0 for none.
func (r Record) Attempt() int {
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
		return Answer{}, fmt.Errorf("annotation %s: the id is missing", AgentAnnotation)
	}
	return a, nil
}

// String renders the annotation's text.
func (a Answer) String() string { return renderJSON(a) }

// AnswerTo returns the agent's answer to r, if there is one.
func AnswerTo(node *corev1.Node, r Record) (Answer, bool) {
	a, err := ParseAnswer(node.Annotations[AgentAnnotation])
	return a, err == nil && a.About(r)
}

// parseJSON reads the text of a gpuscale annotation of at most most bytes.
func parseJSON(key, text string, most int, into any) error {
	if len(text) > most {
		return fmt.Errorf("annotation %s: %d bytes, at most %d", key, len(text), most)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("annotation %s: %w", key, err)
	}
	return nil
}

// renderJSON is the text of such an annotation, equal for equal values. It is empty for a time
// beyond year 9999, which could not be parsed.
func renderJSON(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
