package crashstory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/build"
)

// TestPage: a call is one row with all its faults, behind the head of the committed page.
func TestPage(t *testing.T) {
	root, err := build.FindRoot()
	require.NoError(t, err)
	have, err := os.ReadFile(filepath.Join(root, "docs/internals/crash-story.md"))
	require.NoError(t, err)
	head, _, found := strings.Cut(string(have), storyHeading)
	page := Page(string(have), nil, []Trial{
		{What: "delete nodes a #1", Fault: KillAfter, Verdict: Passed},
		{What: "delete nodes a #1", Fault: KillBefore, Verdict: NotMet},
		{What: "every call", Fault: Error409, Verdict: Passed},
		{What: "every call", Fault: Lost, Verdict: Failed, Why: []string{"one|two"}},
	})
	for _, want := range []string{
		"4 runs: 2 passed, 1 failed, 1 not met.\n",
		"| delete nodes a #1 | passed: after; not met: before |\n",
		"| every call | passed: 409; **failed**: lost: one\\|two |\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if !found || !strings.HasPrefix(page, head+storyHeading) || strings.Count(page, storyHeading) != 1 {
		t.Errorf("the head is another:\n%s", page)
	}
}
