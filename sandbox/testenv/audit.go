package testenv

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
)

// Call is one request, as the API server wrote it into its audit log.
type Call struct {
	Verb, RequestURI, UserAgent string
	RequestReceivedTimestamp    time.Time
	User, ImpersonatedUser      struct{ Username string }
	ObjectRef                   struct{ Resource, Subresource, Namespace, Name string }
	ResponseStatus              struct{ Code int }
	RequestObject               struct {
		DeleteOptions struct{ GracePeriodSeconds *int64 }
	}
}

func (c Call) String() string {
	s := c.Verb + " " + c.ObjectRef.Resource
	if c.ObjectRef.Subresource != "" {
		s += "/" + c.ObjectRef.Subresource
	}
	return s + " " + c.ObjectRef.Name
}

// Granted reports whether the API server did what the call asks for.
func (c Call) Granted() bool { return c.ResponseStatus.Code < 300 }

// By reports whether the call was made in a user's name.
func (c Call) By(user string) bool {
	return c.User.Username == user || c.ImpersonatedUser.Username == user
}

// Calls are those of the audit log so far that match. The policy names who and what
// is written down.
func (e *Env) Calls(t testing.TB, match func(Call) bool) []Call {
	t.Helper()
	text, err := os.ReadFile(e.audit)
	require.NoError(t, err)
	var out []Call
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // half written: its caller has no answer yet
		}
		var c Call
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatalf("the audit log has a line %q: %v", line, err)
		}
		if match(c) {
			out = append(out, c)
		}
	}
	return out
}
