package play

import (
	"fmt"
	"log/slog"

	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/view"
	"github.com/gpuscale/gpuscale/sandbox/world"
	"github.com/gpuscale/gpuscale/sandbox/world/trace"
)

// Options of a run.
type Options struct {
	Binaries world.Binaries
	Story    story.Story
	Trace    string  // file; empty: the story's synthetic trace
	Speed    float64 // 0: the story's
	Keep     bool
	RealNode bool   // join a node of containers
	Out      string // folder the capacity report goes to; empty: none is written
	View     *view.View
	Log      *slog.Logger
}

// traffic returns the story's traffic, or the trace from the given file. A trace is cut to the story's
// length, because the expectations refer to that time.
func (o Options) traffic() (trace.Trace, float64, error) {
	t := o.Story.Traffic
	if t == nil {
		return trace.Trace{}, 1, nil
	}
	speed := t.Speed
	if o.Speed > 0 {
		speed = o.Speed
	}
	if o.Trace != "" {
		tr, err := trace.Load(o.Trace)
		return tr.Until(t.Length), speed, err
	}
	tr, err := trace.Synthetic{Seed: t.Seed, Length: t.Length, Base: t.Base, Peak: t.Peak}.Make()
	if err != nil {
		return trace.Trace{}, 0, fmt.Errorf("making the story's traffic: %w", err)
	}
	return tr, speed, nil
}
