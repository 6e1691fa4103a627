package world

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/replay"
)

//go:embed replayed.txt
var recording string

// replayedName of a node of the replayed fleet.
func replayedName(i int) string { return fmt.Sprintf("replay-%02d", i) }

func replayedPath(name string) string { return "/replay/" + name + "/metrics" }

// replayed plays the recording as so many nodes, without processes, until ctx
// ends, and returns the page of each by the node's name.
func replayed(ctx context.Context, n int, log *slog.Logger) (map[string]http.Handler, error) {
	r, err := replay.Parse("replayed.txt", strings.NewReader(recording))
	if err != nil {
		return nil, fmt.Errorf("reading the built-in recording: %w", err)
	}
	out := map[string]http.Handler{}
	for i := range n {
		name := replayedName(i)
		source := replay.NewSource(r.ForNode(name), replay.Options{})
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
