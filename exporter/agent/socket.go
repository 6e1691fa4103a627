package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

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
func (s *Socket) accept(ctx context.Context) (net.Conn, error) {
	for {
		conn, err := s.listener.Accept()
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.log.Error("agent: quiesce socket accept failed", "error", err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(acceptPause):
		}
	}
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

func (s *Socket) reply(ctx context.Context, line []byte) answer {
	r, err := parseRequest(line)
	if err != nil {
		return answer{Error: err.Error()}
	}
	a := carryOut(ctx, s.gpus, r)
	if !a.OK {
		s.log.Warn("agent: quiesce request failed", "op", r.Op, "gpus", r.GPUs, "error", a.Error)
	}
	return a
}
