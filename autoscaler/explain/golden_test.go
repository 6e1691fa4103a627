package explain

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected texts")

// TestTexts explains the subject in the first line of each file, "# pod a/b", in the
// snapshot below it. After a line "----" follows the expected text.
func TestTexts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			world, want, _ := strings.Cut(string(raw), "----\n")
			got := explained(t, world)
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(world+"----\n"+got), 0o600))
				return
			}
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func explained(t *testing.T, world string) string {
	t.Helper()
	first, _, _ := strings.Cut(world, "\n")
	words := strings.Fields(first)
	if len(words) != 3 {
		t.Fatalf("%q: want # KIND NAME", first)
	}
	s, p, err := scenario.Parse(world)
	require.NoError(t, err)
	ask := map[string]func(plan.Snapshot, plan.Policy, string) (Document, error){"pod": ForPod, "gang": ForGang, "pool": ForPool}[words[1]]
	d, err := ask(s, p, words[2])
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var out, again bytes.Buffer
	require.NoError(t, d.WriteText(&out))
	var js bytes.Buffer
	if err := d.WriteJSON(&js); err != nil || !strings.Contains(js.String(), `"apiVersion": "`+Version+`"`) {
		t.Errorf("JSON: %v", err)
	}
	d, _ = ask(s, p, words[2])
	if _ = d.WriteText(&again); again.String() != out.String() {
		t.Errorf("a second call differs:\n%s", again.String())
	}
	return out.String()
}

// TestProposedChangesHelp: if only the pool's max is too low, raising it is the only change
// proposed, with the verdict it leads to, and it works.
func TestProposedChangesHelp(t *testing.T) {
	s, p, err := scenario.Parse("tick at=2026-11-21T09:00:00Z\npool p max=1 gpus=1 model=L40S\nnode n1 pool=p\n" +
		"pod a/runs requests=gpu node=n1\npod a/waits requests=gpu pending=1m\n")
	require.NoError(t, err)
	d, err := ForPod(s, p, "a/waits")
	require.NoError(t, err)
	if len(d.Changes) != 1 || !strings.Contains(d.Changes[0].What, "max of pool p from 1 to 2") || d.Changes[0].Then.Reason != string(plan.WaitUpcomingNode) {
		t.Errorf("proposed %+v", d.Changes)
	}
	if s.Pools[0].Max != 1 {
		t.Error("trying a change has changed the snapshot")
	}
	s.Pools[0].Max = 2
	if made := plan.Make(s, p); len(made.Actions) != 1 {
		t.Errorf("no action after the proposed change:\n%s", made)
	}
}

// TestCandidatesAreBounded: a candidate may take plans to find, so with many pools only the
// first ones have candidates.
func TestCandidatesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("tick at=2026-11-21T09:00:00Z\n")
	for i := range 60 {
		fmt.Fprintf(&b, "pool p%d max=0 gpus=1 model=L40S\n", i)
	}
	b.WriteString("pod x/waits requests=gpu pending=1m\n")
	s, p, err := scenario.Parse(b.String())
	require.NoError(t, err)
	e, ok := plan.Explain(s, p, "x/waits")
	if !ok {
		t.Fatal("the pod is not pending")
	}
	if n := len(candidates(s, p, e)); n < 2 || n > maxTries+4 {
		t.Errorf("%d candidates of %d pools", n, len(s.Pools))
	}
}

// TestTextIsHarmless: text has no control characters.
func TestTextIsHarmless(t *testing.T) {
	var b bytes.Buffer
	d := Document{Kind: "Pod", Answer: Answer{Detail: "a\x1b]0;title\x07b\rc"}}
	if err := d.WriteText(&b); err != nil || strings.ContainsAny(b.String(), "\x1b\x07\r") || !strings.Contains(b.String(), "title") {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// TestNotes: every reason of a pod has a note, which ends with the remedy if the pod needs
// one.
func TestNotes(t *testing.T) {
	for _, doc := range plan.Reasons() {
		if !strings.Contains(doc.Kind, "pod") {
			continue
		}
		note, warns := Note(plan.Verdict{Kind: plan.KindPod, Subject: "a/b", Reason: doc.Reason})
		if note == "" || warns && doc.WhatToDo != "" && !strings.Contains(note, doc.WhatToDo) {
			t.Errorf("%s: %q", doc.Reason, note)
		}
	}
}
