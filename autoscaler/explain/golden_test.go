package explain

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// TestTexts explains the subject of each command, "pod a/b", in the snapshot below it.
func TestTexts(t *testing.T) {
	asks := map[string]func(plan.Snapshot, plan.Policy, string) (Document, error){"pod": ForPod, "gang": ForGang, "pool": ForPool}
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s, p, err := scenario.Parse(d.Input)
			require.NoError(t, err)
			explained := func() string {
				d, err := asks[d.Cmd](s, p, d.CmdArgs[0].Key)
				if err != nil {
					return "error: " + err.Error() + "\n"
				}
				var out, js bytes.Buffer
				require.NoError(t, d.WriteText(&out))
				if err := d.WriteJSON(&js); err != nil || !strings.Contains(js.String(), `"apiVersion": "`+Version+`"`) {
					t.Errorf("JSON: %v", err)
				}
				return out.String()
			}
			text := explained()
			if again := explained(); again != text {
				t.Errorf("a second call differs:\n%s", again)
			}
			return text
		})
	})
}

// TestPages: the explanations of pods that the docs show are those of snapshots in testdata.
func TestPages(t *testing.T) {
	var explained strings.Builder
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		explained.Write(raw)
	})
	for _, page := range []string{"../../docs/explain.md", "../../docs/mig.md"} {
		raw, err := os.ReadFile(page)
		require.NoError(t, err)
		shown := regexp.MustCompile("(?s)```text\n(pod .*?)```").FindAllStringSubmatch(string(raw), -1)
		if len(shown) == 0 {
			t.Errorf("%s shows no explanation", page)
		}
		for _, text := range shown {
			if !strings.Contains(explained.String(), text[1]) {
				t.Errorf("%s: no snapshot in testdata is explained so:\n%s", page, text[1])
			}
		}
	}
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
	if n := len(candidates(s, p, e).candidates); n < 2 || n > maxTries+4 {
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
