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
	// maxLine is far more than a request naming every card has.
	maxLine = 64 << 10
	// maxTalkers at once; a further one waits.
	maxTalkers = 8
	// silence ends a connection.
	silence = time.Minute
	// acceptPause is between two tries that failed.
	acceptPause = time.Second
)

// Socket takes requests to let go of cards from processes on this node: on a
// unix socket, a JSON object a line, each answered by a line.
type Socket struct {
	listener net.Listener
	cards    Cards
	log      *slog.Logger
}

// Listen makes the socket, and its folder where there is none. Only the owner
// and the group may talk to it.
func Listen(path string, cards Cards, log *slog.Logger) (*Socket, error) {
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
	return &Socket{listener: listener, cards: cards, log: log}, nil
}

// Run answers until ctx ends.
func (s *Socket) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = s.listener.Close() })
	defer stop()
	slots := make(chan struct{}, maxTalkers)
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
			s.talk(ctx, conn)
		})
	}
}

// accept waits for a requester; an error means that ctx has ended. What keeps
// the socket from taking one, too many open files above all, passes.
func (s *Socket) accept(ctx context.Context) (net.Conn, error) {
	for {
		conn, err := s.listener.Accept()
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.log.Error("the quiesce socket takes no request at the moment", "error", err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(acceptPause):
		}
	}
}

// talk answers one requester.
func (s *Socket) talk(ctx context.Context, conn net.Conn) {
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

func extend(conn net.Conn) bool { return conn.SetDeadline(time.Now().Add(silence)) == nil }

func (s *Socket) reply(ctx context.Context, line []byte) answer {
	r, err := parseRequest(line)
	if err != nil {
		return answer{Error: err.Error()}
	}
	a := carryOut(ctx, s.cards, r)
	if !a.OK {
		s.log.Warn("a request on the quiesce socket failed", "op", r.Op, "cards", r.Cards, "error", a.Error)
	}
	return a
}
