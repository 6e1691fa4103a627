package agent

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

func listen(t *testing.T, h *fakeGPUs) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run", "exporter.sock")
	s, err := Listen(path, h, discard())
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() { s.Run(t.Context()) })
	t.Cleanup(running.Wait) // the test's context ends before
	return path
}

func TestSocket(t *testing.T) {
	h := newFakeGPUs()
	path := listen(t, h)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("other users may connect: %v %v", info.Mode(), err)
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	ask := func(text string) (a answer) {
		t.Helper()
		reply, err := client.Post("http://exporter/", "application/json", strings.NewReader(text))
		require.NoError(t, err)
		defer reply.Body.Close()
		require.NoError(t, json.NewDecoder(reply.Body).Decode(&a))
		if a.OK != (reply.StatusCode == http.StatusOK) {
			t.Errorf("%s: %s with %+v", text, reply.Status, a)
		}
		return a
	}
	if a := ask(`{"op":"quiesce","gpus":["GPU-a","GPU-b"],"seconds":60}`); !a.OK || len(a.Released) != 2 || h.until("GPU-b").IsZero() {
		t.Errorf("quiesce: %+v", a)
	}
	if a := ask(`{"op":"resume","gpus":["GPU-a"]}`); !a.OK || !h.until("GPU-a").IsZero() {
		t.Errorf("resume: %+v", a)
	}
	if a := ask(`{"op":"status"}`); !a.OK || len(a.Released) != 1 || a.Released[0].GPU != "GPU-b" {
		t.Errorf("status: %+v", a)
	}
	for line, want := range map[string]string{
		`{`: "no request", `{"op":"reset","gpus":["0"]}`: "want quiesce, resume or status", `{"op":"quiesce"}`: "want at least one",
		`{"op":"resume","gpus":["0"],"seconds":1}`: "has no time", `{"op":"quiesce","gpus":["0"],"seconds":100000}`: "want 1 to 3600",
		`{"op":"status","gpus":["0"]}`: "about all GPUs", `{"op":"status"} {}`: "after top-level value", `{"op":"status","gpu":"0"}`: "unknown field",
		`{"op":"quiesce","gpus":["0"],"seconds":9,"seconds":1}`: "duplicate field",
	} {
		if a := ask(line); a.OK || !strings.Contains(a.Error, want) {
			t.Errorf("%s: %+v, want %q", line, a, want)
		}
	}
	if a := ask(strings.Repeat("x", maxRequest+1)); a.OK || !strings.Contains(a.Error, "too large") {
		t.Errorf("a request without end: %+v", a)
	}
}

// A socket file that a dead exporter left is replaced; one that answers is an error.
func TestSocketIsTaken(t *testing.T) {
	path := listen(t, newFakeGPUs())
	if _, err := Listen(path, newFakeGPUs(), discard()); err == nil {
		t.Error("two exporters answer on one socket")
	}
	left := filepath.Join(t.TempDir(), "left.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	s, err := Listen(left, newFakeGPUs(), discard())
	require.NoError(t, err)
	_ = s.server.Close()
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"op":"quiesce","gpus":["GPU-a"],"seconds":60}`))
	f.Add([]byte(`{"op":"status"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseRequest(line)
		if err == nil && (r.Op != verbStatus) != (len(r.GPUs) > 0) {
			t.Errorf("accepted %+v", r)
		}
	})
}

// TestPage: the requests of docs/exporter.md are accepted, and its answers are as written.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/exporter.md")
	require.NoError(t, err)
	n := 0
	for _, object := range regexp.MustCompile(`\{"(?:op|ok|id)":.*\}`).FindAllString(string(page), -1) {
		n++
		object = strings.ReplaceAll(object, `"until":"…"`, `"until":"2026-11-21T06:02:00Z"`)
		var a any
		switch {
		case strings.HasPrefix(object, `{"op"`):
			_, err = parseRequest([]byte(object))
		case strings.HasPrefix(object, `{"ok"`):
			a = &answer{}
		case strings.Contains(object, `"state"`):
			a = &report{}
		default:
			_, err = parseOrder(object)
		}
		if a != nil {
			err = strict([]byte(object), a)
			if again, _ := json.Marshal(a); string(again) != object {
				t.Errorf("docs/exporter.md: %s, want %s", object, again)
			}
		}
		if err != nil {
			t.Errorf("docs/exporter.md: %s: %v", object, err)
		}
	}
	if n != 7 {
		t.Errorf("docs/exporter.md has %d requests and answers, want 7", n)
	}
}
