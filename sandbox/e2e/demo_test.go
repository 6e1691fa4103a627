package e2e

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/play"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/view"
	"github.com/gpuscale/gpuscale/sandbox/world"
)

// TestDemo plays the demo against the real control plane: its expectations
// must come true in their order. With the Azure conversation trace beside the
// checkout it plays that, otherwise the story's own traffic.
func TestDemo(t *testing.T) {
	b := newBed(t)
	trace := filepath.Join(b.binaries.Root, "..", "shared", "data", "AzureLLMInferenceTrace_conv.csv")
	if _, err := os.Stat(trace); err != nil {
		t.Log("the Azure conversation trace is not beside this checkout: playing the synthetic one")
		trace = ""
	}
	name, text := Demo()
	result := b.play(t, name, text, trace)
	if result.Summary.Length > 5*time.Minute {
		t.Errorf("the demo took %s, want at most 5 minutes", result.Summary.Length)
	}
}

// TestWedged plays the story of a mig-manager that stops in mid-change.
func TestWedged(t *testing.T) {
	b := newBed(t)
	name := filepath.Join("testdata", "wedged.txt")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b.play(t, name, string(text), "")
}

// bed is what every test on the real control plane stands on.
type bed struct {
	binaries world.Binaries
	log      *slog.Logger
}

// newBed builds what is not built yet; it skips under -short.
func newBed(t *testing.T) bed {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test starts a control plane and takes minutes")
	}
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	binaries, err := world.Build(t.Context(), root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	useLogger(log)
	return bed{binaries: binaries, log: log}
}

// play a story to its end; every expectation must come true. An empty trace is
// the story's own traffic.
func (b bed) play(t *testing.T, name, text, trace string) play.Result {
	t.Helper()
	s, err := story.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	result, err := play.Run(ctx, play.Options{Binaries: b.binaries, Story: s, Trace: trace, View: view.Plain(t.Output()), Log: b.log})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Met) != len(s.Expect) {
		t.Errorf("%d of %d expectations came true", len(result.Met), len(s.Expect))
	}
	if result.Summary.Requests == 0 {
		t.Error("no request was served")
	}
	return result
}
