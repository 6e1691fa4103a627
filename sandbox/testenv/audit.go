package testenv

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
)

// Call is one request in the API server's audit log.
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

// Granted reports whether the request succeeded.
func (c Call) Granted() bool { return c.ResponseStatus.Code < 300 }

// By reports whether a user made the request.
func (c Call) By(user string) bool {
	return c.User.Username == user || c.ImpersonatedUser.Username == user
}

// Calls returns the matching requests in the audit log so far. The audit policy decides which requests are
// logged.
func (e *Env) Calls(t testing.TB, match func(Call) bool) []Call {
	t.Helper()
	text, err := os.ReadFile(e.audit)
	require.NoError(t, err)
	var out []Call
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // half a line: the request is not answered yet
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
