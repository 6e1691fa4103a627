package partition

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// RecordAnnotation on a node holds the operation under way on it.
const RecordAnnotation = "gpuscale.io/repartition"

// Record is an operation under way, as it stands on its node. Whatever dies,
// the next round finds all it needs to finish or undo it here.
type Record struct {
	ID    string `json:"id"`
	Card  int    `json:"card"`
	Model string `json:"model"`
	// UUID of the card where it is known: indices change when a card falls off.
	UUID string `json:"uuid,omitempty"`
	// Actuator is ActuatorAgent, or empty for mig-manager.
	Actuator string `json:"actuator,omitempty"`
	// Selected lets the agent begin; for mig-manager, the label does.
	Selected bool `json:"selected,omitempty"`
	// Whole is true when the card was not in MIG mode before.
	Whole bool `json:"whole,omitempty"`
	// Target and Before are layouts in slices, "3g@0:4 3g@4:4": no table is needed
	// to read them. Those from before that was so have the driver's names.
	Target string `json:"target"`
	Before string `json:"before"`
	// Config is the name to select; Previous the one to go back to. An agent
	// needs neither.
	Config   string `json:"config"`
	Previous string `json:"previous"`
	// Expect is what the node advertises once the target is there.
	Expect map[string]int64 `json:"expect"`
	// Was is what it advertised before.
	Was map[string]int64 `json:"was"`
	// Pods with GPUs that were on the node when this was decided. Another one
	// may have taken the card: the label is then not set.
	Pods []string `json:"pods,omitempty"`
	// Cordoned is true when the node was made unschedulable for this operation,
	// and not by somebody else before it.
	Cordoned bool      `json:"cordoned"`
	Started  time.Time `json:"started"`
	Deadline time.Time `json:"deadline"`
	// LabelAfter keeps the label back until kubelet has carried a new config
	// into mig-manager's pod.
	LabelAfter time.Time `json:"labelAfter"`
	// Undo is set once the operation is being rolled back.
	Undo *Undo `json:"undo,omitempty"`
}

// Undo is how far rolling back has come.
type Undo struct {
	Since    time.Time `json:"since"` // of the last attempt
	Attempts int       `json:"attempts"`
}

// RecordOf reads the record on a node; ok is false where there is none. A
// record nobody can read is an error: such a node must be left alone.
func RecordOf(node *corev1.Node) (r Record, ok bool, err error) {
	text, ok := node.Annotations[RecordAnnotation]
	if !ok {
		return Record{}, false, nil
	}
	r, err = ParseRecord(text)
	return r, true, err
}

// Bounds of what a record is believed to say. An operation that is given a day is
// a clock that jumped: nobody would undo it.
const (
	maxRecordBytes   = 256 << 10
	maxRecordMinutes = 24 * 60
)

// ParseRecord reads the annotation's text.
func ParseRecord(text string) (Record, error) {
	if len(text) > maxRecordBytes {
		return Record{}, fmt.Errorf("annotation %s: %d bytes, at most %d", RecordAnnotation, len(text), maxRecordBytes)
	}
	var r Record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Record{}, fmt.Errorf("annotation %s: %w", RecordAnnotation, err)
	}
	switch {
	case r.ID == "":
		return Record{}, fmt.Errorf("annotation %s: no id", RecordAnnotation)
	case r.Actuator != "" && r.Actuator != ActuatorAgent:
		return Record{}, fmt.Errorf("annotation %s: actuator %q: want %s or none", RecordAnnotation, r.Actuator, ActuatorAgent)
	case r.Actuator == "" && (r.Config == "" || r.Previous == ""):
		return Record{}, fmt.Errorf("annotation %s: no config or no previous config", RecordAnnotation)
	case r.Card < 0:
		return Record{}, fmt.Errorf("annotation %s: card %d", RecordAnnotation, r.Card)
	case r.Deadline.IsZero():
		return Record{}, fmt.Errorf("annotation %s: no deadline", RecordAnnotation)
	case !r.Started.IsZero() && r.Deadline.Sub(r.Started) > maxRecordMinutes*time.Minute:
		return Record{}, fmt.Errorf("annotation %s: deadline %s, %s after the start: want at most %d minutes",
			RecordAnnotation, r.Deadline.UTC().Format(time.RFC3339), r.Deadline.Sub(r.Started), maxRecordMinutes)
	}
	return r, nil
}

// String renders the annotation's text.
func (r Record) String() string {
	b, err := json.Marshal(r)
	if err != nil {
		return "" // a time beyond year 9999; ParseRecord refuses the result
	}
	return string(b)
}

// TargetLayout parses Target; nil where it cannot be read.
func (r Record) TargetLayout() mig.Layout {
	if l, err := mig.ParseSlices(r.Target); err == nil {
		return l
	}
	table, ok := mig.ForModel(r.Model)
	if !ok {
		return nil
	}
	l, err := mig.ParseLayout(table, r.Target)
	if err != nil {
		return nil
	}
	return l
}
