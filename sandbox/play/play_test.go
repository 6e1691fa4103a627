package play

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/view"
)

func withTraffic() story.Story {
	return story.Story{
		Title:   "t",
		Pools:   []story.Pool{{Name: "p", GPUs: 2}},
		Nodes:   []story.Node{{Name: "a", Pool: "p"}, {Name: "b", Pool: "p"}},
		Traffic: &story.Traffic{Speed: 20, Seed: 1, Base: 1, Peak: 2, Length: time.Minute},
	}
}

func TestTrafficIsTheStorysUnlessAFileIsGiven(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.csv")
	text := "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,1,1\n2023-11-16 18:00:59,1,1\n2023-11-16 18:01:01,1,1\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	own, speed, err := Options{Story: withTraffic()}.traffic()
	if err != nil || speed != 20 || !strings.HasPrefix(own.Name, "synthetic") {
		t.Errorf("the story's: %s ×%g, %v", own.Name, speed, err)
	}
	given, speed, err := Options{Story: withTraffic(), Trace: file, Speed: 3}.traffic()
	if err != nil || speed != 3 || given.Name != "mine" {
		t.Errorf("a file: %s ×%g, %v", given.Name, speed, err)
	}
	if n := len(given.Requests); n != 2 {
		t.Errorf("%d requests within the story's minute, want 2", n)
	}
	bad := filepath.Join(t.TempDir(), "bad.csv")
	_ = os.WriteFile(bad, []byte("x"), 0o600)
	if _, _, err := (Options{Story: withTraffic(), Trace: bad}).traffic(); err == nil || !strings.Contains(err.Error(), bad+":") {
		t.Errorf("a broken file: %v", err)
	}
	if none, _, err := (Options{}).traffic(); err != nil || len(none.Requests) != 0 {
		t.Errorf("no traffic: %v, %v", none, err)
	}
}

func TestHeaderNamesTheStory(t *testing.T) {
	got := header(Options{Story: withTraffic()}, "azure", 20)
	if !strings.Contains(got, "2 simulated GPU nodes with 4 GPUs in 1 pools") || !strings.Contains(got, "trace azure ×20") {
		t.Error(got)
	}
	if got := header(Options{}, "", 1); !strings.Contains(got, "no traffic") {
		t.Error(got)
	}
}

func TestAFailedStoryListsWhatWasMet(t *testing.T) {
	p := player{}
	if got := p.failed(errors.New("no")).Error(); got != "the story failed: no; met before: nothing" {
		t.Error(got)
	}
	p.met = []view.Stage{{Name: "up", At: 1600 * time.Millisecond}}
	if got := p.failed(errors.New("no")).Error(); got != "the story failed: no; met before: up (2s)" {
		t.Error(got)
	}
}
