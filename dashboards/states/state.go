package states

import (
	"embed"
	"fmt"
	"sync"
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
	MIG     = "mig"   // cards in mixed layouts, one of them cut anew
	XID     = "xid"   // cards fail, a node is replaced
	Empty   = "empty" // no nodes, and nobody who wants any
	Down    = "down"  // as healthy; from the tenth minute on no exporter answers
)

//go:embed stories/*.txt
var stories embed.FS

// State is half an hour of one cluster.
type State struct {
	Name     string
	recorded *recording
	without  []string
	ruled    bool
}

// All returns the five states. The first call records them, which takes some
// seconds; it panics where a story of ours is wrong.
func All() []State { return all() }

var all = sync.OnceValue(func() []State {
	names := []string{Healthy, MIG, XID, Empty, Down}
	out, errs := make([]State, len(names)), make([]error, len(names))
	exporter, err := newSelf()
	if err != nil {
		panic(fmt.Sprintf("recording the states: %v", err))
	}
	var done sync.WaitGroup
	for i, name := range names {
		done.Go(func() {
			out[i].Name = name
			out[i].recorded, errs[i] = record(name, exporter)
		})
	}
	done.Wait()
	for i, err := range errs {
		if err != nil {
			panic(fmt.Sprintf("recording the state %s: %v", names[i], err))
		}
	}
	return out
})

// Find returns the state of that name.
func Find(name string) (State, bool) {
	for _, s := range All() {
		if s.Name == name {
			return s, true
		}
	}
	return State{}, false
}

// Start is the time of the first scrape.
func (s State) Start() time.Time { return begin }

// End is the time of the last scrape.
func (s State) End() time.Time { return begin.Add(Length) }

// Storage returns the series as a Prometheus has them that scrapes with or without
// honor_labels. It is safe for concurrent use.
func (s State) Storage(honorLabels bool) storage.Queryable {
	v := view{set: s.recorded.plain, without: s.without}
	if honorLabels {
		v.set = s.recorded.honored
	}
	if s.ruled {
		v.rules = &s.recorded.ruled
	}
	return v
}

// Without returns the state without one metric family: a histogram goes with its
// buckets, sum and count.
func (s State) Without(family string) State {
	s.without = append(append([]string(nil), s.without...), family)
	return s
}

// Families are the names of all metric families there are, sorted; what rules record
// is not among them.
func (s State) Families() []string { return s.recorded.families() }
