package capacity_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/capacity"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// TestStories runs testdata/stories. A block "snapshot" has the text of a scenario;
// those below it ask for tables of it, or have the file's ledger observe it.
//
//	snapshot                      a new snapshot, its lines in plan/scenario's language
//	supply [by=model|pool|node]   held  stranded  room
//	pending [ns/pod=REASON …]     with these verdicts
//	ledger gap=5h                 a new ledger in which an observation holds so long
//	add at=10m                    the ledger observes the snapshot, so long after the epoch
//	advance to=1h                 the ledger accounts up to here
//	totals | by name=tenant
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := story{ledger: capacity.NewLedger(capacity.LedgerOptions{})}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.do(d)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			checkSurvey(t, s.survey)
			if err := s.ledger.Totals().Check(); err != nil {
				t.Errorf("%s: %v", d.Pos, err)
			}
			return out
		})
	})
}

type story struct {
	snapshot plan.Snapshot
	survey   capacity.Survey
	ledger   *capacity.Ledger
}

func (s *story) do(d *datadriven.TestData) (string, error) {
	word := func(key string) string {
		for _, a := range d.CmdArgs {
			if a.Key == key && len(a.Vals) == 1 {
				return a.Vals[0]
			}
		}
		return ""
	}
	switch d.Cmd {
	case "snapshot":
		snapshot, _, err := scenario.Parse(d.Input)
		if err == nil {
			err = snapshot.Check()
		}
		s.snapshot, s.survey = snapshot, capacity.NewSurvey(snapshot, capacity.DefaultRules())
		return "ok\n", err
	case "supply":
		level := map[string]capacity.Level{"": capacity.ByPool, "model": capacity.ByModel, "pool": capacity.ByPool, "node": capacity.ByNode}
		return s.survey.Supply(level[word("by")]).String(), nil
	case "pending":
		var verdicts []plan.Verdict
		for _, a := range d.CmdArgs {
			verdicts = append(verdicts, plan.Verdict{Kind: plan.KindPod, Subject: a.Key, Reason: plan.Reason(a.Vals[0])})
		}
		return s.survey.Pending(verdicts).String(), nil
	case "held":
		return s.survey.Held().String(), nil
	case "stranded":
		return s.survey.Stranded().String(), nil
	case "room":
		return s.survey.Room().String(), nil
	case "ledger":
		gap, err := time.ParseDuration(word("gap"))
		s.ledger = capacity.NewLedger(capacity.LedgerOptions{MaxGap: gap})
		return "ok\n", err
	case "add":
		after, err := time.ParseDuration(word("at"))
		if err != nil {
			return "", err
		}
		s.snapshot.Now = scenario.Epoch.Add(after)
		s.survey = capacity.NewSurvey(s.snapshot, capacity.DefaultRules())
		return "ok\n", s.ledger.Add(s.survey.Observation())
	case "advance":
		to, err := time.ParseDuration(word("to"))
		if err != nil {
			return "", err
		}
		return "ok\n", s.ledger.Advance(scenario.Epoch.Add(to))
	case "totals":
		return s.ledger.Totals().String(), nil
	case "by":
		name := map[string]func(capacity.Key) string{"tenant": capacity.Tenant, "namespace": capacity.Namespace, "model": capacity.Model, "pool": capacity.Pool}
		return s.ledger.Totals().By(name[word("name")]).String(), nil
	}
	return "", fmt.Errorf("there is no %s", d.Cmd)
}

// checkSurvey is what holds of every survey: the parts of a card are the card, in
// compute and in memory, none of them less than nothing, and a cause stands only
// where there has to be one.
func checkSurvey(t testing.TB, sv capacity.Survey) {
	t.Helper()
	for i := range sv.Cards {
		c := &sv.Cards[i]
		var sum capacity.Size
		for _, p := range c.Parts {
			if p.Size.Compute < 0 || p.Size.Memory < 0 {
				t.Errorf("%s: a part of %+v", c.Name(), p.Size)
			}
			if lost := p.State == capacity.Fragmented || p.State == capacity.Stranded; lost != (p.Cause != capacity.NoCause) {
				t.Errorf("%s: %s because %s", c.Name(), p.State, p.Cause)
			}
			if p.State == capacity.Held && p.Holder == "" || p.State == capacity.Free && p.Holder != "" {
				t.Errorf("%s: %s by %q", c.Name(), p.State, p.Holder)
			}
			sum.Compute += p.Size.Compute
			sum.Memory += p.Size.Memory
		}
		if sum != (capacity.Size{Compute: capacity.CardShares, Memory: capacity.CardShares}) {
			t.Errorf("%s: its parts are %+v, not a card", c.Name(), sum)
		}
	}
	for _, row := range sv.Supply(capacity.ByPool) {
		sum := 0
		for _, size := range row.Size {
			sum += size.Compute
		}
		if sum != row.Cards*capacity.CardShares {
			t.Errorf("pool %s: %d cards, parts of %d shares", row.Pool, row.Cards, sum)
		}
	}
	if strings.Contains(sv.Supply(capacity.ByNode).String(), "no state") {
		t.Error("a state has no name")
	}
}
