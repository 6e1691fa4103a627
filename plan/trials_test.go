package plan_test

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// TestRevertedTrialChangesNothing reverts trials in the world of each plan of each scenario,
// with what is borrowed reclaimed.
func TestRevertedTrialChangesNothing(t *testing.T) {
	files, err := filepath.Glob("scenario/testdata/*.txt")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d scenarios: %v", len(files), err)
	}
	r := rand.New(rand.NewSource(testall.Seed(t, 1)))
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		w := scenario.NewWorld()
		w.Check = func(s plan.Snapshot, p plan.Policy, _ plan.Plan) error {
			p.ReclaimBorrowed = true
			for range 3 {
				if err := plan.RevertTrial(s, p, r); err != nil {
					t.Errorf("%s: %v\n%s", file, err, scenario.Print(s))
				}
			}
			return nil
		}
		script, _ := scenario.Script(string(text))
		_, _ = w.Exec(script) // some files have statements that fail
	}
}

// TestUnknownPodIsNotExplained: running and unknown pods have no explanation, nor have running
// gangs.
func TestUnknownPodIsNotExplained(t *testing.T) {
	s := plan.Snapshot{Pods: []plan.Pod{{Namespace: "a", Name: "runs", Node: "n1", Gang: "a/g"}}}
	for _, name := range []string{"a/runs", "a/none", ""} {
		if _, ok := plan.Explain(s, plan.DefaultPolicy(), name); ok {
			t.Errorf("%q is explained", name)
		}
	}
	if _, ok := plan.ExplainGang(s, plan.DefaultPolicy(), "a/g"); ok {
		t.Error("a gang that runs is explained")
	}
}

// TestTrialsOfEvictionsAreBounded: 16 members are served once for each of the 255 sets of eight pods, but in one
// reconcile no more than 2,048 times, with all gangs together.
func TestTrialsOfEvictionsAreBounded(t *testing.T) {
	text := "policy reclaim-borrowed max-evictions=99 max-actions=99\nquota a guarantee=99\nquota b borrow=all\npool p max=40 gpus=1 model=L40S idle-after=9h\n" +
		"pod a/v-{0..15} requests=gpu tenant=a gang=a/v gang-min=16\npod a/w-{0..15} requests=gpu tenant=a gang=a/w gang-min=16\n"
	for i := range 40 {
		text += fmt.Sprintf("node n%d pool=p age=9h\ngpu n%d/0 allocated-to=b/p%d\npod b/p%d requests=gpu node=n%d tenant=b age=1h evictable\n", i, i, i, i, i)
	}
	s, p, err := scenario.Parse(text)
	require.NoError(t, err)
	if got := plan.Retried(s, p); got != 2048 {
		t.Errorf("%d members are served in trials, want 2048", got)
	}
}
