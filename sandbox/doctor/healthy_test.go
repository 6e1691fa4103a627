package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// unknownHere are the checks that cannot know what they ask in this world, with the
// reason. One that does know is an error, and so is any other that does not.
var unknownHere = map[string]string{}

// TestHealthy: everything is installed and runs as meant. Whoever is told of a fault
// here will not look at the next one.
func TestHealthy(t *testing.T) {
	b := start(t)
	v := b.well(t)
	if v.Faults+v.Warnings > 0 {
		t.Errorf("%d faults and %d warnings where nothing is wrong", v.Faults, v.Warnings)
	}
	for _, c := range v.Checks {
		for _, f := range c.Findings {
			t.Errorf("%s: %s", c.ID, f)
		}
		why, expected := unknownHere[c.ID]
		switch {
		case c.Result == "unknown" && !expected:
			t.Errorf("%s is unknown: %s", c.ID, c.Why)
		case c.Result != "unknown" && expected:
			t.Errorf("%s is %s, and was thought unknown here: %s", c.ID, c.Result, why)
		}
	}
	want := exitNothing
	if len(unknownHere) > 0 {
		want = exitWarnings
	}
	if v.code != want {
		t.Errorf("exit %d, want %d", v.code, want)
	}
	t.Logf("%d checks in %s", len(v.Checks), v.took)
}

// TestList: --list says what is looked for, and --only looks for no more.
func TestList(t *testing.T) {
	b := start(t)
	kubeconfig := b.mustMine(t)
	v, err := b.run(t.Context(), kubeconfig, "--list")
	if err != nil || v.code != exitNothing {
		t.Fatalf("--list: exit %d, %v: %s", v.code, err, v.errors)
	}
	for _, c := range b.normal.Checks {
		if !strings.Contains(v.out, c.ID) {
			t.Errorf("--list leaves out %s", c.ID)
		}
	}
	only, err := b.ask(t.Context(), kubeconfig, "--only", "leader,pool-problem")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range only.Checks {
		if c.Result != "skipped" {
			ids = append(ids, c.ID)
		}
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"leader", "pool-problem"}) {
		t.Errorf("--only leader,pool-problem looks at %q", ids)
	}
}

// mustMine is mine for tests.
func (b *bed) mustMine(t *testing.T) string {
	t.Helper()
	kubeconfig, err := b.mine()
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// well asks until doctor finds the world as it was when all was made, and returns
// what it said then, or last.
func (b *bed) well(t *testing.T) visit {
	t.Helper()
	return b.askUntil(t, late, func(v visit) bool { return len(v.worse(b.normal)) == 0 && v.Faults+v.Warnings == 0 })
}

// askUntil asks until doctor says what is waited for, for so long at most, and returns
// what it said last.
func (b *bed) askUntil(t *testing.T, d time.Duration, said func(visit) bool) visit {
	t.Helper()
	kubeconfig := b.mustMine(t)
	var last visit
	_ = until(within(t, d), "asking doctor", func() error {
		v, err := b.ask(t.Context(), kubeconfig)
		if err != nil {
			return fatalIn(t, err)
		}
		if last = v; !said(v) {
			return errNotYet
		}
		return nil
	})
	return last
}
