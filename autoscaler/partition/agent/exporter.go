package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

// Values of exporter.by.
const (
	bySocket  = "socket"
	byNothing = "none"
)

// NewExporter returns the node's exporter, reached as c defines.
func NewExporter(c ExporterConfig) Exporter {
	if c.By == bySocket {
		return exporterSocket{path: c.Socket, timeout: c.Timeout.Duration}
	}
	return noExporter{}
}

type noExporter struct{}

func (noExporter) Quiesce(context.Context, []string, time.Duration) error { return nil }
func (noExporter) Resume(context.Context, []string) error                 { return nil }

// exporterSocket is the exporter's unix socket: one JSON object per line, each answered by one
// line.
type exporterSocket struct {
	path    string
	timeout time.Duration
}

// maxReply bounds the exporter's answer, in bytes.
const maxReply = 64 << 10

// Quiesce asks the exporter to release GPUs; the exporter reacquires them after d.
func (e exporterSocket) Quiesce(ctx context.Context, gpus []string, d time.Duration) error {
	return e.ask(ctx, map[string]any{"op": "quiesce", "gpus": gpus, "seconds": int(d.Seconds())})
}

// Resume asks the exporter to reacquire GPUs.
func (e exporterSocket) Resume(ctx context.Context, gpus []string) error {
	return e.ask(ctx, map[string]any{"op": "resume", "gpus": gpus})
}

func (e exporterSocket) ask(ctx context.Context, request map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", e.path)
	if err != nil {
		return fmt.Errorf("asking the exporter: %w (where none runs on the node: exporter.by: %s)", err, byNothing)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return fmt.Errorf("asking the exporter: %w", err)
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxReply)
	if !lines.Scan() {
		return fmt.Errorf("asking the exporter: no answer: %w", errors.Join(lines.Err(), ctx.Err()))
	}
	return readReply(lines.Bytes())
}

// readReply parses the exporter's answer: nil for "done".
func readReply(line []byte) error {
	var reply struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	switch err := json.Unmarshal(line, &reply); {
	case err != nil:
		return fmt.Errorf("asking the exporter: its answer: %w", err)
	case !reply.OK:
		return fmt.Errorf("the exporter refuses: %s", reply.Error)
	}
	return nil
}
