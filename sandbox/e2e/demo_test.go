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
	if testing.Short() {
		t.Skip("-short: this test starts a control plane and takes minutes")
	}
	name, text := Demo()
	s, err := story.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	binaries, err := world.Build(ctx, root, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "..", "shared", "data", "AzureLLMInferenceTrace_conv.csv")
	if _, err := os.Stat(file); err != nil {
		t.Log("the Azure conversation trace is not beside this checkout: playing the synthetic one")
		file = ""
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	useLogger(log)
	result, err := play.Run(ctx, play.Options{
		Binaries: binaries, Story: s, Trace: file, View: view.Plain(t.Output()),
		Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Met) != len(s.Expect) {
		t.Errorf("%d of %d expectations came true", len(result.Met), len(s.Expect))
	}
	if result.Summary.Length > 5*time.Minute {
		t.Errorf("the demo took %s, want at most 5 minutes", result.Summary.Length)
	}
	if result.Summary.Requests == 0 {
		t.Error("no request was served")
	}
}
