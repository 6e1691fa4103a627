package partition

import (
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
	// UUID of the GPU if known: indices change when a GPU falls off the bus.
	UUID string `json:"uuid,omitempty"`
	// Actuator is ActuatorAgent, or empty for mig-manager.
	Actuator string `json:"actuator,omitempty"`
	// Selected is set when the actuator is signalled to begin. The agent begins on it; for
	// mig-manager it is written together with the label, which others may move afterwards.
	Selected bool `json:"selected,omitempty"`
	// Whole is true when the GPU was not in MIG mode before.
	Whole bool `json:"whole,omitempty"`
	// Target and Before are layouts in slices, "3g@0:4 3g@4:4", which are readable without a table.
	// Older records have the driver's names.
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
	// Pods with GPUs that were on the node at the decision, as PodOf has them. A new one may have
	// been allocated the GPU: the label is then not set.
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
		return Record{}, fmt.Errorf("annotation %s: no id", RecordAnnotation)
	case r.Actuator != "" && r.Actuator != ActuatorAgent:
		return Record{}, fmt.Errorf("annotation %s: actuator %q: want %s or none", RecordAnnotation, r.Actuator, ActuatorAgent)
	case r.Actuator == "" && (r.Config == "" || r.Previous == ""):
		return Record{}, fmt.Errorf("annotation %s: no config or no previous config", RecordAnnotation)
	case r.GPU < 0:
		return Record{}, fmt.Errorf("annotation %s: GPU %d", RecordAnnotation, r.GPU)
	case r.Deadline.IsZero():
		return Record{}, fmt.Errorf("annotation %s: no deadline", RecordAnnotation)
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
