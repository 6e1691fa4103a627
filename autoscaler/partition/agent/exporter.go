package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// Ways to reach the exporter.
const (
	bySocket     = "socket"
	byAnnotation = "annotation"
	byNothing    = "none"
)

// NewExporter returns the node's exporter, reached as c says.
func NewExporter(c ExporterConfig, cluster *Cluster) Exporter {
	switch c.By {
	case bySocket:
		return exporterSocket{path: c.Socket, timeout: c.Timeout.Duration}
	case byAnnotation:
		return exporterAnnotation{cluster: cluster, timeout: c.Timeout.Duration}
	}
	return noExporter{}
}

type noExporter struct{}

func (noExporter) Quiesce(context.Context, string, []string, time.Duration) error { return nil }
func (noExporter) Resume(context.Context, []string) error                         { return nil }

// exporterSocket is the exporter's unix socket: a JSON object a line, each
// answered by a line.
type exporterSocket struct {
	path    string
	timeout time.Duration
}

// maxReply bounds what the exporter is believed to say.
const maxReply = 64 << 10

// Quiesce asks for cards to be let go of; the exporter takes them back after d.
func (e exporterSocket) Quiesce(ctx context.Context, _ string, cards []string, d time.Duration) error {
	return e.ask(ctx, map[string]any{"op": "quiesce", "cards": cards, "seconds": int(d.Seconds())})
}

// Resume has cards watched again.
func (e exporterSocket) Resume(ctx context.Context, cards []string) error {
	return e.ask(ctx, map[string]any{"op": "resume", "cards": cards})
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

// readReply reads the exporter's line: nil is "done".
func readReply(line []byte) error {
	var reply struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	switch err := json.Unmarshal(line, &reply); {
	case err != nil:
		return fmt.Errorf("asking the exporter: its answer: %w", err)
	case !reply.OK:
		return fmt.Errorf("the exporter does not do it: %s", reply.Error)
	}
	return nil
}

// Annotations of the exporter's protocol.
const (
	quiesceAnnotation  = "gpuscale.io/quiesce"
	quiescedAnnotation = "gpuscale.io/quiesced"
)

// answerEvery is how often the exporter's answer is looked for.
const answerEvery = 250 * time.Millisecond

// exporterAnnotation is the exporter that follows its node's annotation.
type exporterAnnotation struct {
	cluster *Cluster
	timeout time.Duration
}

// Quiesce asks for cards to be let go of and waits for the answer.
func (e exporterAnnotation) Quiesce(ctx context.Context, id string, cards []string, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	// The answer to an earlier request of the operation may still stand there.
	id = fmt.Sprintf("%s.%d", id, rand.Uint64())
	order, err := json.Marshal(map[string]any{"id": id, "cards": cards, "seconds": int(d.Seconds())})
	if err != nil {
		return fmt.Errorf("asking the exporter: %w", err)
	}
	if err := e.cluster.annotate(ctx, "", map[string]any{quiesceAnnotation: string(order)}); err != nil {
		return fmt.Errorf("asking the exporter: %w", err)
	}
	for {
		node, err := e.cluster.Node(ctx)
		if err == nil {
			if done, err := quiesced(node.Annotations[quiescedAnnotation], id); done || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the exporter has not answered annotation %s in %s: does it run with --quiesce-annotation?", quiesceAnnotation, e.timeout)
		case <-time.After(answerEvery):
		}
	}
}

// quiesced reads the exporter's answer to a request.
func quiesced(text, id string) (bool, error) {
	var a struct {
		ID    string `json:"id"`
		State string `json:"state"`
		Error string `json:"error"`
	}
	if len(text) > maxReply || json.Unmarshal([]byte(text), &a) != nil || a.ID != id {
		return false, nil
	}
	if a.State == "failed" {
		return false, fmt.Errorf("the exporter does not do it: %s", a.Error)
	}
	return a.State == "released", nil
}

// Resume has the cards watched again.
func (e exporterAnnotation) Resume(ctx context.Context, _ []string) error {
	return e.cluster.annotate(ctx, "", map[string]any{quiesceAnnotation: nil})
}
