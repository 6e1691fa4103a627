package crashstory

import (
	"strings"
	"testing"
)

// TestTheStoryIsTheSameEachTime: what is compared does not depend on the clock.
func TestTheStoryIsTheSameEachTime(t *testing.T) {
	b := bed(t)
	golden, _ := cleanRun(t, b)
	r := newTestReplica(t, b, "again", false)
	for range *runs {
		end, notes, err := b.Play(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := golden.Diff(end); len(diff) > 0 {
			t.Errorf("another end:\n%s", strings.Join(diff, "\n"))
			explain(t, b, notes)
		}
	}
}
