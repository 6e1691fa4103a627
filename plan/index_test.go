package plan

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuscale/gpuscale/internal/testall"
)

func TestMain(m *testing.M) { testall.Main(m) }

// TestIndexIsALinearScan: the best node of an index is that of a linear scan,
// whatever nodes are pushed and used, as long as a value only falls without a
// push.
func TestIndexIsALinearScan(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		closed := -1
		nodes := rapid.IntRange(1, 12).Draw(r, "nodes")
		worth := make([]entry, nodes)
		good := make([]bool, nodes)
		set := func(i int) {
			worth[i] = entry{int64(rapid.IntRange(0, 4).Draw(r, "at")), rapid.IntRange(0, 4).Draw(r, "rank"), i}
			good[i] = rapid.IntRange(0, 3).Draw(r, "good") > 0
		}
		value := func(i int) (entry, bool) { return worth[i], good[i] }
		var s index
		open := func(on int) bool { return closed != on }
		for i := range nodes {
			if set(i); good[i] {
				s.push(i%3, worth[i])
			}
		}
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			i := rapid.IntRange(0, nodes-1).Draw(r, "node")
			switch rapid.IntRange(0, 3).Draw(r, "what") {
			case 0: // pushed
				if set(i); good[i] {
					s.push(i%3, worth[i])
				}
			case 1: // pushed before it was evaluated
				set(i)
				s.push(i%3, unevaluated(i))
			case 2: // used
				worth[i].at += int64(rapid.IntRange(0, 3).Draw(r, "later"))
				worth[i].rank += rapid.IntRange(0, 3).Draw(r, "less")
			case 3: // no longer usable
				good[i] = false
			}
			closed = rapid.IntRange(0, 5).Draw(r, "closed") // a heap, or none
			want := -1
			for j := range nodes {
				if good[j] && j%3 != closed && (want < 0 || worth[j].before(worth[want])) {
					want = j
				}
			}
			if got := s.best(open, value); got != want {
				r.Fatalf("best is %d, looking at all finds %d: %v %v", got, want, worth, good)
			}
		}
	})
}
