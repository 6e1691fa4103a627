package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gpuscale/gpuscale/exporter/node"
)

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

// carryOut executes a request.
func carryOut(ctx context.Context, gpus GPUs, r request) answer {
	var done []node.Release
	var err error
	switch r.Op {
	case verbQuiesce:
		done, err = gpus.Quiesce(ctx, r.GPUs, time.Duration(r.Seconds)*time.Second)
	case verbResume:
		err = gpus.Resume(ctx, r.GPUs)
	default:
		done, err = gpus.Quiesced(ctx)
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{OK: true, Released: done}
}
