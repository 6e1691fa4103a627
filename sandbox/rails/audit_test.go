package rails

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// auditEvent is one write, as the API server saw it.
type auditEvent struct {
	Verb string
	User struct{ Username string }
	// As is whom the user acted as.
	As struct{ Username string } `json:"impersonatedUser"`
	At time.Time                 `json:"requestReceivedTimestamp"`
	// Agent is how the program names itself.
	Agent  string `json:"userAgent"`
	Object struct{ Resource, Subresource, Namespace, Name string }
	Status struct{ Code int }
	// Grace is what an eviction asks for, in seconds; nil for the pod's own.
	Grace *int64
}

func (e auditEvent) String() string {
	s := e.Verb + " " + e.Object.Resource
	if e.Object.Subresource != "" {
		s += "/" + e.Object.Subresource
	}
	return s + " " + e.Object.Name
}

// UnmarshalJSON reads the parts whose names differ.
func (e *auditEvent) UnmarshalJSON(text []byte) error {
	type plain auditEvent
	var raw struct {
		plain
		ObjectRef      *struct{ Resource, Subresource, Namespace, Name string }
		ResponseStatus struct{ Code int }
		RequestObject  struct {
			DeleteOptions struct{ GracePeriodSeconds *int64 }
		}
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	*e = auditEvent(raw.plain)
	e.Status, e.Grace = raw.ResponseStatus, raw.RequestObject.DeleteOptions.GracePeriodSeconds
	if raw.ObjectRef != nil {
		e.Object = *raw.ObjectRef
	}
	return nil
}

// evictions of a pod that were granted.
func (w *world) evictions(pod string) []auditEvent {
	w.t.Helper()
	return w.writes(w.t, autoscalerUser, func(e auditEvent) bool {
		return e.Object.Subresource == "eviction" && e.Object.Namespace == w.namespace() && e.Object.Name == pod && e.Status.Code < 300
	})
}

// writes are the calls of a user, of anybody for the empty one, that the API server
// wrote down and that match.
func (b *bed) writes(t *testing.T, user string, match func(auditEvent) bool) []auditEvent {
	t.Helper()
	text, err := os.ReadFile(b.audit)
	if err != nil {
		t.Fatal(err)
	}
	var out []auditEvent
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // somebody's who has no answer yet: it is being written
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("the audit log has a line %q: %v", line, err)
		}
		if (user == "" || e.User.Username == user || e.As.Username == user) && match(e) {
			out = append(out, e)
		}
	}
	return out
}
