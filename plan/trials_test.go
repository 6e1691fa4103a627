package plan_test

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/mig"
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

// TestTidyKeepsEveryInstance adds an instance to every layout of a product that lacks one, and none is removed. The
// first one is allocated; elsewhere pods run on each of the model's profiles.
func TestTidyKeepsEveryInstance(t *testing.T) {
	for _, model := range []string{"A30-24GB", "H100-80GB"} {
		table, _ := mig.ForModel(model)
		elsewhere := ""
		for i, p := range table.Profiles() {
			elsewhere += fmt.Sprintf("pod b/p%d requests=%s node=elsewhere\n", i, table.Name(p))
		}
		for _, whole := range table.Maximal() {
			for i := range whole {
				part := slices.Delete(slices.Clone(whole), i, i+1)
				layout := strings.Replace(table.Format(part)+" ", " ", ":allocated-to=a/p ", 1)
				if len(part) == 0 {
					layout = ""
				}
				s, p, err := scenario.Parse(fmt.Sprintf("pool p min=1 max=1 size=1 repartition=keep-busy\nnode n pool=p\ngpu n/0 model=%s mig layout=(%s) gpu-idle=1h\n%s", model, layout, elsewhere))
				require.NoError(t, err)
				made := plan.Make(s, p)
				if len(made.Actions) != 1 || made.Actions[0].Reason != plan.GPUStranded {
					t.Fatalf("%s %s: want one action\n%s", model, layout, made)
				}
				to := made.Actions[0].Target
				if len(table.Free(to)) > 0 || table.Legal(to) != nil || slices.ContainsFunc(part, func(q mig.Placement) bool { return !slices.Contains(to, q) }) {
					t.Fatalf("%s %s: %s", model, layout, made.Actions[0])
				}
			}
		}
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
