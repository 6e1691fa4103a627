package explain

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

var rewrite = flag.Bool("rewrite", false, "write the expected texts anew")

// TestTexts explains the subject that the first line of each file names, "# pod
// a/b", of the snapshot below it, up to a line "----"; what follows is the answer.
func TestTexts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			world, want, _ := strings.Cut(string(raw), "----\n")
			got := told(t, world)
			if *rewrite {
				if err := os.WriteFile(file, []byte(world+"----\n"+got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func told(t *testing.T, world string) string {
	t.Helper()
	first, _, _ := strings.Cut(world, "\n")
	words := strings.Fields(first)
	if len(words) != 3 {
		t.Fatalf("%q: want # KIND NAME", first)
	}
	s, p, err := scenario.Parse(world)
	if err != nil {
		t.Fatal(err)
	}
	ask := map[string]func(plan.Snapshot, plan.Policy, string) (Document, error){"pod": ForPod, "gang": ForGang, "pool": ForPool}[words[1]]
	d, err := ask(s, p, words[2])
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var out, again bytes.Buffer
	if err := d.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	var js bytes.Buffer
	if err := d.WriteJSON(&js); err != nil || !strings.Contains(js.String(), `"apiVersion": "`+Version+`"`) {
		t.Errorf("JSON: %v", err)
	}
	d, _ = ask(s, p, words[2])
	if _ = d.WriteText(&again); again.String() != out.String() {
		t.Errorf("asked twice, two answers:\n%s", again.String())
	}
	return out.String()
}

// TestErrorsAreTold: what cannot be explained is refused in words that say where
// to look.
func TestErrorsAreTold(t *testing.T) {
	s, p, err := scenario.Parse("tick at=2026-11-21T09:00:00Z\npool p max=2 gpus=1 model=L40S\nnode n1 pool=p\n" +
		"pod a/runs wants=gpu node=n1\npod a/waits wants=gpu\npod a/m wants=gpu gang=a/g gang-min=1 node=n1\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ask  func(plan.Snapshot, plan.Policy, string) (Document, error)
		name string
		is   error
		says string
	}{
		{ForPod, "a/runs", ErrNotPending, "bound to node n1"},
		{ForPod, "a/other", ErrNotFound, "asks for no GPU"},
		{ForPod, "a/other", ErrNotFound, "these wait: a/waits"},
		{ForPod, "waits", nil, "NAMESPACE/NAME"},
		{ForGang, "a/none", ErrNotFound, "it has: a/g"},
		{ForGang, "a/g", ErrNotPending, "all its members run"},
		{ForPool, "q", ErrNotFound, "it has: p"},
	} {
		_, err := c.ask(s, p, c.name)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v with %q", c.name, err, c.is, c.says)
		}
	}
}

// TestProposedChangesHelp: every change that is proposed was tried, and what the
// pod gets then is written beside it. Of a world in which nothing is wrong but the
// pool's maximum, that and nothing else is proposed.
func TestProposedChangesHelp(t *testing.T) {
	s, p, err := scenario.Parse("tick at=2026-11-21T09:00:00Z\npool p max=1 gpus=1 model=L40S\nnode n1 pool=p\n" +
		"pod a/runs wants=gpu node=n1\npod a/waits wants=gpu pending=1m\n")
	if err != nil {
		t.Fatal(err)
	}
	d, err := ForPod(s, p, "a/waits")
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Changes) != 1 || !strings.Contains(d.Changes[0].What, "max of pool p from 1 to 2") || d.Changes[0].Then.Reason != string(plan.WaitUpcomingNode) {
		t.Errorf("proposes %+v", d.Changes)
	}
	if s.Pools[0].Max != 1 {
		t.Error("trying a change has changed the snapshot")
	}
	s.Pools[0].Max = 2
	if made := plan.Make(s, p); len(made.Actions) != 1 {
		t.Errorf("done as proposed, nothing happens:\n%s", made)
	}
}

// TestChangesAreWhatTheySay: a change is tried as it is written, for the pool that it
// names and no other.
func TestChangesAreWhatTheySay(t *testing.T) {
	const world = `tick at=2026-11-21T09:00:00Z
pool full max=1 gpus=1 model=L40S taints=(a=x:NoSchedule) labels=(gpuscale.io/pool=full tier=a)
pool free max=9 gpus=1 model=L40S taints=(b=x:NoSchedule) labels=(gpuscale.io/pool=free tier=b)
node n1 pool=full
pod x/runs wants=gpu node=n1
pod x/waits wants=gpu pending=1m
`
	for select_, want := range map[string]string{"": "tolerate b of pool free", " selector=(tier=c) tolerations=(a:op=Exists b:op=Exists)": "match pool free"} {
		s, p, err := scenario.Parse(strings.Replace(world, "pending=1m", "pending=1m"+select_, 1))
		if err != nil {
			t.Fatal(err)
		}
		d, err := ForPod(s, p, "x/waits")
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Changes) != 1 || !strings.Contains(d.Changes[0].What, want) {
			t.Errorf("%q: proposes %+v, want only %s", select_, d.Changes, want)
		}
	}
}

// TestCandidatesAreBounded: finding how far a pool's max would have to be raised costs
// plans; of very many pools only the first are looked at.
func TestCandidatesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("tick at=2026-11-21T09:00:00Z\n")
	for i := range 60 {
		fmt.Fprintf(&b, "pool p%d max=0 gpus=1 model=L40S\n", i)
	}
	b.WriteString("pod x/waits wants=gpu pending=1m\n")
	s, p, err := scenario.Parse(b.String())
	if err != nil {
		t.Fatal(err)
	}
	e, ok := plan.Explain(s, p, "x/waits")
	if !ok {
		t.Fatal("it does not wait")
	}
	if n := len(candidates(s, p, e)); n < 2 || n > maxTries+4 {
		t.Errorf("%d candidates of %d pools", n, len(s.Pools))
	}
}

// TestAResourceQuotaIsNamed: where one keeps a pod from being made, that is what has
// to be raised.
func TestAResourceQuotaIsNamed(t *testing.T) {
	s, p, err := scenario.Parse("tick at=2026-11-21T09:00:00Z\npool p max=2 gpus=1 model=L40S\n" +
		"quota resourcequota/x/gpus/no-more/requests.nvidia.com/gpu limit=0\npod x/waits wants=gpu pending=1m tenant=resourcequota/x/gpus/no-more/requests.nvidia.com/gpu\n")
	if err != nil {
		t.Fatal(err)
	}
	d, err := ForPod(s, p, "x/waits")
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Changes) != 1 || d.Changes[0].What != "raise requests.nvidia.com/gpu of ResourceQuota x/gpus" {
		t.Errorf("proposes %+v", d.Changes)
	}
}

// TestTextIsHarmless: what is printed cannot speak to the terminal.
func TestTextIsHarmless(t *testing.T) {
	var b bytes.Buffer
	d := Document{Kind: "Pod", Answer: Answer{Detail: "a\x1b]0;title\x07b\rc"}}
	if err := d.WriteText(&b); err != nil || strings.ContainsAny(b.String(), "\x1b\x07\r") || !strings.Contains(b.String(), "title") {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// TestNotesFit: every reason of a pod has a line for its Event, within what the
// API takes, and says what to do where somebody has to do something.
func TestNotesFit(t *testing.T) {
	for _, doc := range plan.Reasons() {
		if !strings.Contains(doc.Kind, "pod") {
			continue
		}
		note, warns := Note(plan.Verdict{Kind: plan.KindPod, Subject: "a/b", Reason: doc.Reason})
		if note == "" || warns && doc.WhatToDo != "" && !strings.Contains(note, doc.WhatToDo) {
			t.Errorf("%s: %q", doc.Reason, note)
		}
	}
	long, _ := Note(plan.Verdict{Reason: plan.NoPoolFits, Detail: strings.Repeat("é", 1000)})
	if len(long) > 1024 || !strings.HasSuffix(long, " …") || strings.ContainsRune(long, '\uFFFD') {
		t.Errorf("%d bytes: %q", len(long), long[len(long)-10:])
	}
}
