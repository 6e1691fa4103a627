package play

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/query"
)

// fake replaces gpuscale-report by a script: it records its arguments and runs body.
func fake(t *testing.T, body string) reporting {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "report")
	text := "#!/bin/sh\necho \"$*\" >> " + filepath.Join(dir, "calls") + "\nwhile [ \"$1\" != --out ]; do shift; done\n" + body + "\n"
	require.NoError(t, os.WriteFile(program, []byte(text), 0o700))
	return reporting{program: program, prometheus: "http://prometheus.invalid", dir: dir}
}

var (
	began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ended = began.Add(191 * time.Second)
)

func TestAReportWithHolesIsAReport(t *testing.T) {
	r := fake(t, `echo page > "$2"; echo "gpuscale-report: the report is written, but 80 %" >&2; exit 3`)
	got, err := r.write(context.Background(), began, ended)
	if err != nil || got.Note != "the report is written, but 80 %" || !strings.Contains(got.text(err), "\n          the report is written, but 80 %") {
		t.Errorf("%+v, %v", got, err)
	}
	calls, _ := os.ReadFile(filepath.Join(r.dir, "calls"))
	if want := "--since 3m0s --until 2026-03-01T12:03:11Z"; !strings.Contains(string(calls), want) {
		t.Errorf("lacks %q:\n%s", want, calls)
	}
}

// TestAFailedReportIsExplained: errors of gpuscale-report appear in the line about the report.
func TestAFailedReportIsExplained(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"in its words": {`echo "gpuscale-report: Prometheus is away" >&2; exit 1`, "report    none: Prometheus is away"},
		"without any":  {`exit 1`, "report    none: starting report: exit status 1"},
	} {
		got, err := fake(t, c.body).write(context.Background(), began, ended)
		if text := got.text(err); text != c.want || got.HTML != "" {
			t.Errorf("%s: got %q", name, text)
		}
	}
	got, err := reporting{program: filepath.Join(t.TempDir(), "no"), dir: t.TempDir()}.write(context.Background(), began, ended)
	if text := got.text(err); !strings.Contains(text, "report    none: ") || !strings.Contains(text, "no such file") {
		t.Errorf("without the program: %q", text)
	}
}

// TestReportLength: the report's window contains the first seconds of the story, and begins at most one step
// before them, whenever the story began. A story that is too short for a report gets one with a gap, and the
// report says so.
func TestReportLength(t *testing.T) {
	for late := range 15 {
		from := began.Add(time.Duration(late) * time.Second)
		for _, played := range []time.Duration{191 * time.Second, 3 * time.Minute, 224 * time.Second} {
			until := from.Add(played)
			w, err := query.NewWindow(until, reportLength(from, until))
			if err != nil || w.Step != reportStep || w.From.After(from) || from.Sub(w.From) >= reportStep {
				t.Errorf("played from %s to %s: the window begins at %s, in steps of %s (%v)", from, until, w.From, w.Step, err)
			}
		}
	}
	if got := reportLength(began, began.Add(20*time.Second)); got != reportLeast {
		t.Errorf("of 20 s: %s, want %s", got, reportLeast)
	}
}
