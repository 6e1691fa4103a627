package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/internal/serve"
)

// DefaultSocket is where requesters on the node look.
const DefaultSocket = "/run/gpuscale/exporter.sock"

const (
	// maxLine is far more than a request naming every GPU has.
	maxLine = 64 << 10
	// maxConnections at once; further ones wait.
	maxConnections = 8
	// idleTimeout ends an idle connection.
	idleTimeout = time.Minute
	// acceptPause is between two failed attempts.
	acceptPause = time.Second
)

// Socket takes requests to release GPUs from processes on this node: on a unix
// socket, a JSON object a line, each answered by a line.
type Socket struct {
	listener net.Listener
	gpus     GPUs
	log      *slog.Logger
}

// Listen makes the socket, and its folder where there is none. Only the owner
// and the group may connect.
func Listen(path string, gpus GPUs, log *slog.Logger) (*Socket, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("quiesce socket: %w", err)
	}
	listener, err := serve.Listen("unix:" + path)
	if err != nil {
		return nil, fmt.Errorf("quiesce socket: %w", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(fmt.Errorf("quiesce socket: %w", err), listener.Close())
	}
	return &Socket{listener: listener, gpus: gpus, log: log}, nil
}

// Run answers until ctx ends.
func (s *Socket) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = s.listener.Close() })
	defer stop()
	slots := make(chan struct{}, maxConnections)
	var talks sync.WaitGroup
	defer talks.Wait()
	for {
		slots <- struct{}{}
		conn, err := s.accept(ctx)
		if err != nil {
			return
		}
		talks.Go(func() {
			defer func() { <-slots }()
			s.serve(ctx, conn)
		})
	}
}

// accept waits for a requester; an error means that ctx has ended. Errors such
// as too many open files are temporary.
func (s *Socket) accept(ctx context.Context) (conn net.Conn, err error) {
	err = wait.PollUntilContextCancel(ctx, acceptPause, true, func(context.Context) (bool, error) {
		var err error
		if conn, err = s.listener.Accept(); err != nil && ctx.Err() == nil {
			s.log.Error("agent: quiesce socket accept failed", "error", err)
		}
		return err == nil, nil
	})
	return conn, err
}

// serve answers one requester.
func (s *Socket) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxLine)
	replies := json.NewEncoder(conn)
	for extend(conn) && lines.Scan() {
		if replies.Encode(s.reply(ctx, lines.Bytes())) != nil {
			return
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		_ = replies.Encode(answer{Error: fmt.Sprintf("the line has more than %d bytes", maxLine)})
	}
}

func extend(conn net.Conn) bool { return conn.SetDeadline(time.Now().Add(idleTimeout)) == nil }

// reply executes a request.
func (s *Socket) reply(ctx context.Context, line []byte) answer {
	var done []node.Release
	r, err := parseRequest(line)
	switch {
	case err != nil:
	case r.Op == verbQuiesce:
		done, err = s.gpus.Quiesce(ctx, r.GPUs, time.Duration(r.Seconds)*time.Second)
	case r.Op == verbResume:
		err = s.gpus.Resume(ctx, r.GPUs)
	default:
		done, err = s.gpus.Quiesced(ctx)
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
	Quiesced(ctx context.Context) ([]node.Release, error)
}

// Verbs of a request.
const (
	verbQuiesce = "quiesce"
	verbResume  = "resume"
	verbStatus  = "status"
)

// request is a line on the socket.
type request struct {
	Op string `json:"op"`
	// GPUs by UUID or index; empty for status only.
	GPUs []string `json:"gpus,omitempty"`
	// Seconds until the GPUs are reacquired; 0 is node.DefaultQuiesce.
	Seconds int `json:"seconds,omitempty"`
}

// answer is a line back.
type answer struct {
	OK       bool           `json:"ok"`
	Error    string         `json:"error,omitempty"`
	Released []node.Release `json:"released,omitempty"`
}

// maxGPUs is more than a machine has.
const maxGPUs = 256

// parseRequest reads one line. A field that is not known is an error: a
// misspelt "seconds" would otherwise release a GPU for the default time.
func parseRequest(line []byte) (request, error) {
	var r request
	if err := strict(line, &r); err != nil {
		return request{}, fmt.Errorf(`%w; want {"op":"quiesce","gpus":["GPU-…"],"seconds":300}`, err)
	}
	switch {
	case r.Op != verbQuiesce && r.Op != verbResume && r.Op != verbStatus:
		return request{}, fmt.Errorf("op %q: want quiesce, resume or status", r.Op)
	case r.Op == verbStatus && len(r.GPUs) > 0:
		return request{}, errors.New("gpus: status is of all GPUs")
	case r.Op != verbStatus && len(r.GPUs) == 0:
		return request{}, errors.New("gpus: none is named")
	case r.Op != verbQuiesce && r.Seconds != 0:
		return request{}, fmt.Errorf("seconds: %s takes none", r.Op)
	}
	return r, checkGPUs(r.GPUs, r.Seconds)
}

func checkGPUs(gpus []string, seconds int) error {
	if len(gpus) > maxGPUs {
		return fmt.Errorf("gpus: %d, want at most %d", len(gpus), maxGPUs)
	}
	if most := int(node.MaxQuiesce.Seconds()); seconds < 0 || seconds > most {
		return fmt.Errorf("seconds: %d, want 1 to %d, or 0 for %d", seconds, most, int(node.DefaultQuiesce.Seconds()))
	}
	return nil
}

// strict decodes one JSON object and nothing after it.
func strict(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("no request: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("no request: more than one JSON object")
	}
	return nil
}
