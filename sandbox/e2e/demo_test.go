package e2e

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/play"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/view"
	"github.com/gpuscale/gpuscale/sandbox/world"
)

// TestLoop plays the whole loop in a minute: traffic, queue, HPA, pods, a repartitioned GPU, a node that is
// added and later removed. At the end, everything that the demo offers to look at must exist.
func TestLoop(t *testing.T) { newEnv(t).playAndLook(t, storyFile(t, "loop.yaml"), "", false) }

// TestDemo plays the demo in the same way. If the Azure conversation trace is beside the checkout, it plays
// that trace, otherwise the story's own traffic.
func TestDemo(t *testing.T) {
	testall.Only(t, "the loop of TestLoop as newcomers see it, in five minutes")
	b := newEnv(t)
	trace := filepath.Join(b.binaries.Root, "..", "shared", "data", "AzureLLMInferenceTrace_conv.csv")
	if _, err := os.Stat(trace); err != nil {
		t.Log("the Azure conversation trace is not beside this checkout: playing the synthetic one")
		trace = ""
	}
	s, err := story.Parse(Demo())
	require.NoError(t, err)
	b.playAndLook(t, s, trace, true)
}

// storyFile reads a story in testdata.
func storyFile(t *testing.T, name string) story.Story {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	s, err := story.Parse(name, string(text))
	require.NoError(t, err)
	return s
}

// storyTimeout is far more than any story takes.
const storyTimeout = 15 * time.Minute

// env is what all tests on the real control plane share.
type env struct {
	binaries world.Binaries
	log      *slog.Logger
}

// newEnv builds what is not built yet. It skips the test under -short.
func newEnv(t *testing.T) env {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test starts a control plane and takes minutes")
	}
	root, err := build.FindRoot()
	require.NoError(t, err)
	binaries, err := world.Build(t.Context(), root, os.Stderr)
	require.NoError(t, err)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	// Also for libraries: without a logger, controller-runtime prints a stack trace.
	kube.UseLogger(log)
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
	return env{binaries: binaries, log: log}
}

// playAndLook plays a story and keeps it running at its end, as --keep does. When the screen shows the last
// line, it checks everything that a user could look at, and then acts as if Ctrl-C were pressed. An empty
// trace means the story's own traffic. long means that the story is long enough for a report.
func (b env) playAndLook(t *testing.T, s story.Story, trace string, long bool) {
	t.Helper()
	// A machine under load may need longer than the time that a newcomer should have to wait.
	for i := range s.Expect {
		s.Expect[i].Within = max(s.Expect[i].Within, 5*time.Minute)
	}
	ctx, ctrlC := context.WithTimeout(t.Context(), storyTimeout)
	var result play.Result
	var err error
	drawn, ended, out := newScreen(lastLine), make(chan struct{}), t.TempDir()
	go func() {
		defer close(ended)
		result, err = play.Run(ctx, play.Options{
			Binaries: b.binaries, Story: s, Trace: trace, Keep: true, Out: out,
			View: view.Plain(io.MultiWriter(drawn, t.Output())), Log: b.log,
		})
	}()
	defer func() { // also if a check fails
		ctrlC()
		<-ended
	}()
	select {
	case <-drawn.shown:
		checkRules(t, drawn.after(t, "Prometheus"))
		checkBoards(t, drawn.after(t, "boards"))
		checkPasted(t, drawn.pasted(t))
	case <-ended:
	}
	ctrlC()
	<-ended
	checkPlayed(t, s, result, err)
	checkReport(t, result, long)
	checkAlerts(t, result)
}

func checkPlayed(t *testing.T, s story.Story, result play.Result, err error) {
	t.Helper()
	require.NoError(t, err)
	if met := len(result.Summary.Took); met != len(s.Expect) {
		t.Errorf("%d of %d expectations came true", met, len(s.Expect))
	}
	if result.Summary.Requests == 0 {
		t.Error("no request was served")
	}
}
