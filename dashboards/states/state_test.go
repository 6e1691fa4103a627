package states

import (
	"embed"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"
)

// Every is the scrape interval, and Length how long is recorded.
const (
	Every  = 15 * time.Second
	Length = 30 * time.Minute
)

// Names of the states.
const (
	Healthy = "healthy"
	MIG     = "mig"   // GPUs in mixed layouts, one of them repartitioned
	XID     = "xid"   // GPUs fail, a node is replaced
	Empty   = "empty" // no nodes, and no demand
	Down    = "down"  // as healthy; from the tenth minute on no exporter answers
)

//go:embed stories/*.txt
var stories embed.FS

// State is half an hour of one cluster.
type State struct {
	Name     string
	recorded func() *recording
	without  []string
	ruled    bool
}

// All returns the five states. Each is recorded at the first use of its series, which
// takes some seconds and panics on an invalid story.
func All() []State { return slices.Clone(all) }

var all = func() []State {
	var out []State
	programs := sync.OnceValues(newSelves)
	for _, name := range []string{Healthy, MIG, XID, Empty, Down} {
		out = append(out, State{Name: name, recorded: sync.OnceValue(func() *recording {
			selves, err := programs()
			if err != nil {
				panic(fmt.Sprintf("recording the states: %v", err))
			}
			r, err := record(name, selves)
			if err != nil {
				panic(fmt.Sprintf("recording the state %s: %v", name, err))
			}
			return r
		})})
	}
	return out
}()

// find returns the state of that name.
func find(t *testing.T, name string) State {
	t.Helper()
	i := slices.IndexFunc(all, func(s State) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("there is no state %s", name)
	}
	return all[i]
}

// Start is the time of the first scrape.
func (s State) Start() time.Time { return begin }

// End is the time of the last scrape.
func (s State) End() time.Time { return begin.Add(Length) }

// Storage returns the series as a Prometheus has them that scrapes with or without
// honor_labels. It is safe for concurrent use.
func (s State) Storage(honorLabels bool) storage.Queryable {
	r := s.recorded()
	v := view{DB: &r.plain, without: s.without}
	if honorLabels {
		v.DB = &r.honored
	}
	if s.ruled {
		v.rules = &r.ruled
	}
	return v
}

// Without returns the state without one metric family: a histogram goes with its
// buckets, sum and count.
func (s State) Without(family string) State {
	s.without = append(append([]string(nil), s.without...), family)
	return s
}

// Families are the names of all metric families, sorted, without those of rules.
func (s State) Families() []string {
	d := &s.recorded().plain
	var all []string
	for _, name := range d.Names() {
		all = append(all, familyOf(d, name))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
