package e2e

import (
	"context"
	"io"
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
// must come true in their order, and what it leaves to look at must be there. With the Azure conversation trace beside the
// checkout it plays that, otherwise the story's own traffic.
func TestDemo(t *testing.T) {
	b := newBed(t)
	trace := filepath.Join(b.binaries.Root, "..", "shared", "data", "AzureLLMInferenceTrace_conv.csv")
	if _, err := os.Stat(trace); err != nil {
		t.Log("the Azure conversation trace is not beside this checkout: playing the synthetic one")
		trace = ""
	}
	name, text := Demo()
	result := b.playAndLook(t, name, text, trace, func(t *testing.T, s *screen) {
		checkRules(t, s.after(t, "Prometheus"))
		checkBoards(t, s.after(t, "boards"))
		checkPasted(t, s.pasted(t))
	})
	checkReport(t, result)
	checkAlerts(t, result)
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

// storyTimeout is far more than any story takes.
const storyTimeout = 15 * time.Minute

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
	ctx, cancel := context.WithTimeout(t.Context(), storyTimeout)
	defer cancel()
	result, err := play.Run(ctx, play.Options{Binaries: b.binaries, Story: s, Trace: trace, View: view.Plain(t.Output()), Log: b.log})
	checkPlayed(t, s, result, err)
	return result
}

// playAndLook plays a story and keeps it running at its end, as --keep does;
// when the screen says so it looks, and then presses Ctrl-C.
func (b bed) playAndLook(t *testing.T, name, text, trace string, look func(*testing.T, *screen)) play.Result {
	t.Helper()
	s, err := story.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	ctx, ctrlC := context.WithTimeout(t.Context(), storyTimeout)
	var result play.Result
	drawn, ended, out := newScreen(lastLine), make(chan struct{}), t.TempDir()
	go func() {
		defer close(ended)
		result, err = play.Run(ctx, play.Options{
			Binaries: b.binaries, Story: s, Trace: trace, Keep: true, Out: out,
			View: view.Plain(io.MultiWriter(drawn, t.Output())), Log: b.log,
		})
	}()
	defer func() { // also when looking fails
		ctrlC()
		<-ended
	}()
	select {
	case <-drawn.shown:
		look(t, drawn)
	case <-ended:
	}
	ctrlC()
	<-ended
	checkPlayed(t, s, result, err)
	return result
}

func checkPlayed(t *testing.T, s story.Story, result play.Result, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Met) != len(s.Expect) {
		t.Errorf("%d of %d expectations came true", len(result.Met), len(s.Expect))
	}
	if result.Summary.Requests == 0 {
		t.Error("no request was served")
	}
}
