package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/gpuscale/gpuscale/internal/require"
)

// TestText: the text for a healthy cluster is short, and without colour where it is
// not a terminal.
func TestText(t *testing.T) {
	b := start(t)
	b.well(t)
	v := b.text(t, exitNothing)
	if lines := strings.Count(v.out, "\n"); lines > 15 {
		t.Errorf("%d lines about a cluster in order:\n%s", lines, v.out)
	}
	t.Logf("\n%s", v.out)
}

// TestTextOfFaults: the worst first, with all that the other form has.
func TestTextOfFaults(t *testing.T) {
	b := start(t)
	x := &trouble{env: b, t: t}
	for _, f := range readFaults(t) {
		if f.Name == "a pool that was frozen and forgotten" || f.Name == "a pool whose target does not exist" { // a warning and a fault
			x.seed(f)
		}
	}
	j := b.askUntil(t, func(v visit) bool { return v.Faults == 1 && v.Warnings == 1 })
	v := b.text(t, exitFaults)
	last := -1
	for _, id := range []string{"pool-problem", "pool-frozen"} {
		for _, f := range j.of(id).Findings {
			for _, part := range append([]string{f.Object, f.Seen, f.Means, f.Fix}, f.Commands...) {
				if !strings.Contains(v.out, part) {
					t.Errorf("the text has no %q", part)
				}
			}
			at := strings.Index(v.out, f.Object)
			if at < last {
				t.Errorf("%s comes too early", f.Object)
			}
			last = at
		}
	}
	t.Logf("\n%s", v.out)
}

// TestHostileText: the text of an HPA or an annotation reaches neither the reader's
// terminal as control sequences nor the shell as commands.
func TestHostileText(t *testing.T) {
	b := start(t)
	x := &trouble{env: b, t: t}
	loot := filepath.Join(t.TempDir(), "loot")
	word := "gpu_busy\x1b[2J\u202e'\";touch " + loot + ";$(touch " + loot + ")`touch " + loot + "`\n#"
	// A name is a part of a path, which only a slash cannot be in.
	metric, err := json.Marshal(strings.ReplaceAll(word, "/", "|"))
	x.must(err)
	x.patch(`{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"namespace": "team", "name": "embed"}, "spec":
		{"metrics": [{"type": "Pods", "pods": {"metric": {"name": ` + string(metric) + `}, "target": {"type": "AverageValue", "averageValue": "500m"}}}]}}`)
	failed, err := json.Marshal(map[string]string{"id": "1", "state": "failed", "message": word})
	x.must(err)
	annotation, err := json.Marshal(string(failed))
	x.must(err)
	x.patch(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "whole-1", "annotations": {"gpuscale.io/mig-agent": ` + string(annotation) + `}}}`)
	v := b.askUntil(t, func(v visit) bool { return v.Faults >= 2 })
	for _, id := range []string{"hpa-metric-unknown", "mig-config-failed"} {
		found := v.of(id).Findings
		if len(found) == 0 {
			t.Errorf("%s finds nothing", id)
		}
		for _, f := range found {
			for _, part := range append([]string{f.Object, f.Seen, f.Means, f.Fix}, f.Commands...) {
				if strings.ContainsFunc(part, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%s: what cannot be seen is in %q", id, part)
				}
			}
			for _, command := range f.Commands {
				_ = b.typeIn(t, command) // it may fail, but must do nothing else
			}
		}
	}
	text := b.text(t, exitFaults)
	if strings.ContainsFunc(text.out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		t.Errorf("what cannot be seen is in the text: %q", text.out)
	}
	if _, err := os.Stat(loot); err == nil {
		t.Error("a command did what the name says")
	}
}

// text is a run with the text output, without a terminal.
func (b *env) text(t *testing.T, code int) visit {
	t.Helper()
	v, err := b.run(t.Context(), b.mustMine(t), "--prometheus", b.Cluster.PrometheusURL())
	require.NoError(t, err)
	if v.code != code {
		t.Errorf("exit %d, want %d: %s", v.code, code, v.out)
	}
	if strings.ContainsRune(v.out, '\x1b') {
		t.Errorf("escapes where there is no terminal: %q", v.out)
	}
	return v
}
