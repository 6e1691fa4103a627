package signal

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// Forget is how long after its last sample a series still counts as one that
// fell silent. Afterwards it is as if it had never been.
const Forget = 10 * time.Minute

// Table is what one rule knows about all pods at one moment. It is immutable
// once built and safe for concurrent use.
type Table struct {
	rule   Rule
	points map[Key][]point
	// byNamespace lists the keys of points, for what is not asked by pod.
	byNamespace map[string][]Key
	series      int
}

// point is the last that is known about one series.
type point struct {
	labels labels.Labels
	value  float64
	// at is when the value was scraped, on this process's clock.
	at   time.Time
	tier int
	// unusable: the series is there, but its value is nothing to go by.
	unusable bool
}

// NewTable returns a table that knows nothing.
func NewTable(rule Rule) *Table {
	return &Table{rule: rule, points: map[Key][]point{}, byNamespace: map[string][]Key{}}
}

// Rule returns the rule the table answers.
func (t *Table) Rule() Rule { return t.rule }

// Series returns the number of series in the answer the table was built from,
// usable or not.
func (t *Table) Series() int { return t.series }

func (t *Table) add(k Key, p point) {
	known, seen := t.points[k]
	if !seen {
		t.byNamespace[k.Namespace] = append(t.byNamespace[k.Namespace], k)
	}
	t.points[k] = append(known, p)
}

// carry takes over what older knew and t does not, so that a series that
// vanished is known to have fallen silent rather than never heard of.
func (t *Table) carry(older *Table, now time.Time) {
	for k, points := range older.points {
		current := t.points[k]
		for _, p := range points {
			if now.Sub(p.at) > Forget || holds(current, p) {
				continue
			}
			t.add(k, p)
		}
	}
}

func holds(points []point, p point) bool {
	for _, q := range points {
		if q.tier == p.tier && labels.Equal(q.labels, p.labels) {
			return true
		}
	}
	return false
}
