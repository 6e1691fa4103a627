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

	"k8s.io/apimachinery/pkg/util/wait"
)

// Values of exporter.by.
const (
	bySocket     = "socket"
	byAnnotation = "annotation"
	byNothing    = "none"
)

// NewExporter returns the node's exporter, reached as c defines.
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

// exporterSocket is the exporter's unix socket: one JSON object per line, each answered by one
// line.
type exporterSocket struct {
	path    string
	timeout time.Duration
}

// maxReply bounds the exporter's answer, in bytes.
const maxReply = 64 << 10

// Quiesce asks the exporter to release GPUs; the exporter reacquires them after d.
func (e exporterSocket) Quiesce(ctx context.Context, _ string, gpus []string, d time.Duration) error {
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

// Annotations of the exporter's protocol.
const (
	quiesceAnnotation  = "gpuscale.io/quiesce"
	quiescedAnnotation = "gpuscale.io/quiesced"
)

// answerEvery is the interval at which the exporter's answer is polled.
const answerEvery = 250 * time.Millisecond

// exporterAnnotation is an exporter that watches its node's annotation.
type exporterAnnotation struct {
	cluster *Cluster
	timeout time.Duration
}

// Quiesce asks the exporter to release GPUs and waits for its answer.
func (e exporterAnnotation) Quiesce(ctx context.Context, id string, gpus []string, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	// The answer to an earlier request of the same operation may still be there.
	id = fmt.Sprintf("%s.%d", id, rand.Uint64())
	order, err := json.Marshal(map[string]any{"id": id, "gpus": gpus, "seconds": int(d.Seconds())})
	if err != nil {
		return fmt.Errorf("asking the exporter: %w", err)
	}
	if err := e.cluster.annotate(ctx, "", map[string]any{quiesceAnnotation: string(order)}); err != nil {
		return fmt.Errorf("asking the exporter: %w", err)
	}
	var refused error
	err = wait.PollUntilContextCancel(ctx, answerEvery, true, func(ctx context.Context) (done bool, _ error) {
		if node, err := e.cluster.Node(ctx); err == nil {
			done, refused = quiesced(node.Annotations[quiescedAnnotation], id)
		}
		return done || refused != nil, nil
	})
	if err != nil {
		return fmt.Errorf("the exporter has not answered annotation %s in %s: does it run with --quiesce-annotation?", quiesceAnnotation, e.timeout)
	}
	return refused
}

// quiesced reports whether the exporter has confirmed a request.
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
		return false, fmt.Errorf("the exporter refuses: %s", a.Error)
	}
	return a.State == "released", nil
}

// Resume asks the exporter to reacquire the GPUs.
func (e exporterAnnotation) Resume(ctx context.Context, _ []string) error {
	return e.cluster.annotate(ctx, "", map[string]any{quiesceAnnotation: nil})
}
