package doctor

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Names of other programs are repeated here, since programs do not import each other;
// these tests compare them with their owners.

func TestSignals(t *testing.T) {
	var theirs []string
	for _, r := range signal.Builtin(time.Minute) {
		theirs = append(theirs, r.Name)
	}
	if ours := slices.Sorted(slices.Values(signals)); !slices.Equal(ours, slices.Sorted(slices.Values(theirs))) {
		t.Errorf("the adapter has %q, this list %q", theirs, ours)
	}
}

func TestNames(t *testing.T) {
	if reasonForeign != pools.ReasonForeign {
		t.Errorf("%q here, %q there", reasonForeign, pools.ReasonForeign)
	}
	if maxUndo != partition.MaxUndoAttempts {
		t.Errorf("%d attempts here, %d there", maxUndo, partition.MaxUndoAttempts)
	}
}

// Every series of a query is emitted.
func TestSeries(t *testing.T) {
	known := map[string]bool{"up": true}
	for _, d := range metric.All() {
		known[d.Name] = true
	}
	for _, r := range rules.All() {
		known[r.Record] = true
	}
	name := regexp.MustCompile(`\$([a-zA-Z_][a-zA-Z0-9_:]*)`)
	for _, d := range Table {
		for _, m := range name.FindAllStringSubmatch(d.Query, -1) {
			if !known[m[1]] {
				t.Errorf("%s: no program emits %s", d.Name, m[1])
			}
		}
	}
	for _, rule := range []string{gpuRule, poolRule} {
		if !known[rule] {
			t.Errorf("there is no rule %s", rule)
		}
	}
}

// Every check has texts, a unique id, and existing sources.
func TestAll(t *testing.T) {
	sources := map[*Source]bool{}
	for _, s := range Table {
		if sources[s] || s.Name == "" || (len(s.Paths) == 0) == (s.Query == "") || s.Query == "" && (s.take == nil) == (s.named == nil) {
			t.Errorf("source %s: twice, or without a way to read it", s.Name)
		}
		sources[s] = true
	}
	ids := map[string]bool{}
	used := map[*Source]bool{}
	for _, c := range All() {
		if ids[c.ID] || c.ID == "" || c.Title == "" || c.Fault == "" || c.Means == "" || c.Run == nil || len(c.Looks) == 0 {
			t.Errorf("check %q is not whole, or is there twice", c.ID)
		}
		ids[c.ID] = true
		for _, s := range slices.Concat(c.Looks, c.May) {
			if !sources[s] {
				t.Errorf("check %s reads %s, which no source has", c.ID, s.Name)
			}
			used[s] = true
		}
	}
	for s := range maps.Keys(sources) {
		if !used[s] {
			t.Errorf("%s is read for nothing", s.Name)
		}
	}
	for _, c := range All() {
		if strings.ContainsAny(c.ID, " _") || c.ID != strings.ToLower(c.ID) {
			t.Errorf("id %q", c.ID)
		}
	}
}

// Nothing is ok that was not read: with a source missing, every check of it without a
// finding is unknown or skipped.
func TestMissingIsNotOK(t *testing.T) {
	for _, c := range All() {
		f := empty()
		for _, d := range Table {
			f.Missing[d] = "you lack the right to read " + d.Name
		}
		r := Examine(f, []Check{c})
		if got := r.Checks[0]; got.Outcome != Unknown || got.Why == "" {
			t.Errorf("%s is %s where nothing could be read: %q", c.ID, got.Outcome, got.Why)
		}
	}
}

func TestSelect(t *testing.T) {
	some, err := Select(All(), []string{"leader", "apiservice-missing"})
	if err != nil || len(some) != 2 || some[0].ID != "apiservice-missing" {
		t.Errorf("got %v, %v: want two, in the order of all", some, err)
	}
	if _, err := Select(All(), []string{"leder"}); err == nil || !strings.Contains(err.Error(), "leder") {
		t.Errorf("err = %v", err)
	}
}
