package plan_test

import (
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
