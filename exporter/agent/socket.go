package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	kjson "sigs.k8s.io/json"

	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/internal/serve"
)

// DefaultSocket is where requesters on the node look.
const DefaultSocket = "/run/gpuscale/exporter.sock"

// maxRequest is far more than a request naming every GPU has, in bytes.
const maxRequest = 64 << 10

// Socket takes requests to release GPUs from processes on this node. It serves HTTP
// on a unix socket: a JSON object is posted to / and another one is returned.
type Socket struct {
	server *serve.Server
	gpus   GPUs
	log    *slog.Logger
}

// Listen makes the socket, and its folder where there is none. Only the owner
// and the group may connect.
func Listen(path string, gpus GPUs, log *slog.Logger) (*Socket, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("quiesce socket: %w", err)
	}
	s := &Socket{gpus: gpus, log: log}
	var err error
	s.server, err = serve.New(serve.Options{Address: "unix:" + path, Log: log, Routes: func(mux *http.ServeMux) { mux.HandleFunc("POST /{$}", s.serve) }})
	if err != nil {
		return nil, fmt.Errorf("quiesce socket: %w", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(fmt.Errorf("quiesce socket: %w", err), s.server.Close())
	}
	return s, nil
}

// Run answers until ctx ends.
func (s *Socket) Run(ctx context.Context) {
	if err := s.server.Run(ctx); err != nil {
		s.log.Error("agent: quiesce socket failed", "error", err)
	}
}

func (s *Socket) serve(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	reply := answer{Error: fmt.Sprint("no request: ", err)}
	if err == nil {
		reply = s.reply(r.Context(), text)
	}
	w.Header().Set("Content-Type", "application/json")
	if !reply.OK {
		w.WriteHeader(http.StatusBadRequest)
	}
	_ = json.NewEncoder(w).Encode(reply) // what fails is the connection
}

// reply executes a request.
func (s *Socket) reply(ctx context.Context, text []byte) answer {
	var done []node.Release
	r, err := parseRequest(text)
	switch {
	case err != nil:
	case r.Op == verbQuiesce:
		done, err = s.gpus.Quiesce(ctx, r.GPUs, time.Duration(r.Seconds)*time.Second)
	case r.Op == verbResume:
		err = s.gpus.Resume(ctx, r.GPUs)
	default:
		done = s.gpus.Quiesced()
	}
	if err != nil {
		s.log.Warn("agent: quiesce request failed", "op", r.Op, "gpus", r.GPUs, "error", err)
		return answer{Error: err.Error()}
	}
	return answer{OK: true, Released: done}
}

// GPUs releases and reacquires GPUs: a node.Node.
type GPUs interface {
	Quiesce(ctx context.Context, gpus []string, d time.Duration) ([]node.Release, error)
	Resume(ctx context.Context, gpus []string) error
	Quiesced() []node.Release
}

// Verbs of a request.
const (
	verbQuiesce = "quiesce"
	verbResume  = "resume"
	verbStatus  = "status"
)

// request is what is posted.
type request struct {
	Op string `json:"op"`
	selection
}

// selection is which GPUs are to be released, and for how long.
type selection struct {
	// GPUs by UUID or index.
	GPUs []string `json:"gpus,omitempty"`
	// Seconds until the GPUs are reacquired; 0 is node.DefaultQuiesce.
	Seconds int `json:"seconds,omitempty"`
}

// answer is what is returned.
type answer struct {
	OK       bool           `json:"ok"`
	Error    string         `json:"error,omitempty"`
	Released []node.Release `json:"released,omitempty"`
}

// maxGPUs is more than a machine has.
const maxGPUs = 256

// parseRequest reads a request. A field that is not known is an error: a
// misspelt "seconds" would otherwise release a GPU for the default time.
func parseRequest(text []byte) (request, error) {
	var r request
	if err := strict(text, &r); err != nil {
		return request{}, fmt.Errorf(`%w; want {"op":"quiesce","gpus":["GPU-…"],"seconds":300}`, err)
	}
	switch {
	case r.Op != verbQuiesce && r.Op != verbResume && r.Op != verbStatus:
		return request{}, fmt.Errorf("op %q: want quiesce, resume or status", r.Op)
	case r.Op != verbQuiesce && r.Seconds != 0:
		return request{}, fmt.Errorf("seconds: remove it: %s has no time", r.Op)
	case r.Op != verbStatus:
		return r, r.check()
	case len(r.GPUs) > 0:
		return request{}, errors.New("gpus: remove it: status is about all GPUs")
	}
	return r, nil
}

func (s selection) check() error {
	switch most := int(node.MaxQuiesce.Seconds()); {
	case len(s.GPUs) == 0:
		return errors.New("gpus: want at least one")
	case len(s.GPUs) > maxGPUs:
		return fmt.Errorf("gpus: %d, want at most %d", len(s.GPUs), maxGPUs)
	case s.Seconds < 0 || s.Seconds > most:
		return fmt.Errorf("seconds: %d, want 1 to %d, or 0 for %d", s.Seconds, most, int(node.DefaultQuiesce.Seconds()))
	}
	return nil
}

// strict decodes one JSON object, with each of its fields once, and nothing after it.
func strict(text []byte, into any) error {
	problems, err := kjson.UnmarshalStrict(text, into)
	if err = cmp.Or(err, errors.Join(problems...)); err != nil {
		return fmt.Errorf("no request: %w", err)
	}
	return nil
}
