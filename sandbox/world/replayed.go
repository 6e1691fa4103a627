package world

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/replay"
)

//go:embed replayed.yaml
var recording string

// replayedName of a node of the replayed fleet.
func replayedName(i int) string { return fmt.Sprintf("replay-%02d", i) }

func replayedPath(name string) string { return "/replay/" + name + "/metrics" }

// replayed plays the recording as so many nodes, without processes, until ctx
// ends, and returns the page of each by the node's name.
func replayed(ctx context.Context, n int, log *slog.Logger) (map[string]http.Handler, error) {
	frames, err := replay.Parse([]byte(recording))
	if err != nil {
		return nil, fmt.Errorf("reading the built-in recording: %w", err)
	}
	out := map[string]http.Handler{}
	for i := range n {
		name := replayedName(i)
		source, err := replay.NewSource(ofNode(frames, name), nil)
		if err != nil {
			return nil, fmt.Errorf("replaying %s: %w", name, err)
		}
		one, err := node.New(node.Options{
			Name: name, Interval: time.Second, Log: log,
			Source: source,
		})
		if err != nil {
			return nil, fmt.Errorf("replaying %s: %w", name, err)
		}
		go one.Run(ctx)
		out[name] = one.Handler()
	}
	return out, nil
}

// ofNode gives the GPUs UUIDs of a node's own.
func ofNode(frames []replay.Frame, name string) []replay.Frame {
	out := slices.Clone(frames)
	for i := range out {
		out[i].GPUs = slices.Clone(out[i].GPUs)
		for k := range out[i].GPUs {
			out[i].GPUs[k].UUID += "-" + name
		}
	}
	return out
}
