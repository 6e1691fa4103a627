package fleet

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/capacity"
)

const (
	// surveyEvery is how often the cards are counted. Rounds are a second apart;
	// taking 8,000 cards apart each time would cost more than planning.
	surveyEvery = 10 * time.Second
	// calmEvery is how often while nothing happens but that cards compute or do not.
	// The first round in which something does is counted at once.
	calmEvery = 3 * surveyEvery
	// maxRows of the ledger, maxShapes of what waits, and maxNamed tenants and HPAs.
	maxRows, maxShapes, maxNamed = 2000, 100, 2000
)

// Round is one turn of the loop.
type Round struct {
	*observe.Observation
	Plan    *plan.Plan
	Results []act.Result
	// Acted is when the actions had been carried out.
	Acted time.Time
	// Calm says that nobody waits and that nothing is about to change.
	Calm bool
}

// Fleet is a prometheus.Collector of what rounds tell. It is safe for concurrent
// use.
type Fleet struct {
	mu       sync.Mutex
	descs    map[string]*prometheus.Desc
	leading  bool
	surveyed time.Time
	ledger   *capacity.Ledger
	begun    time.Time // of the ledger
	gauges   []value   // of the last survey, and the ledger's sums
	counts   *counts
	waits    *waits
}

// New returns a Fleet that does not lead.
func New() *Fleet {
	f := &Fleet{descs: newDescs()}
	f.reset()
	return f
}

// reset forgets everything.
func (f *Fleet) reset() {
	f.surveyed, f.begun, f.gauges = time.Time{}, time.Time{}, nil
	f.ledger = newLedger()
	f.counts, f.waits = newCounts(), newWaits()
}

func newLedger() *capacity.Ledger {
	o := capacity.DefaultLedgerOptions()
	o.MaxRows = maxRows
	return capacity.NewLedger(o)
}

// Lead says whether this replica decides. Who stops leading has no series any more,
// and begins anew when it leads again: what went on in between others counted.
func (f *Fleet) Lead(leading bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leading != leading {
		f.reset()
	}
	f.leading = leading
}

// Observe takes in a round. The error is the ledger's: it refused what was seen, or
// the clock went back, and begins anew.
func (f *Fleet) Observe(r Round) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waits.observe(&r)
	f.counts.observe(&r)
	every := surveyEvery
	if r.Calm {
		every = calmEvery
	}
	if since := r.Now.Sub(f.surveyed); !f.surveyed.IsZero() && since >= 0 && since < every {
		// The cards are as they were seen, but time has passed: counters that moved every
		// ten seconds would make rates over scrapes every fifteen wrong by percents.
		_ = f.ledger.Advance(r.Now) // it can only refuse what the next survey tells
		return nil
	}
	f.surveyed = r.Now
	survey := capacity.NewSurvey(r.Snapshot, capacity.DefaultRules())
	if f.begun.IsZero() {
		f.begun = r.Now
	}
	err := f.account(&survey)
	f.gauges = f.gauges[:0]
	f.cards(&survey)
	f.pools(&r)
	f.tenants(&r)
	f.demand(&survey, &r)
	f.hpas(&r)
	f.forecasts(&survey, &r)
	return err
}

// account has the ledger take in a survey. Prices are left out: those of spot nodes
// change all the time, and each would be a row of its own.
func (f *Fleet) account(survey *capacity.Survey) error {
	o := survey.Observation()
	for i := range o.Cards {
		o.Cards[i].PricePerHour = 0
	}
	err := f.ledger.Add(o)
	if err == nil {
		return nil
	}
	f.ledger, f.begun = newLedger(), survey.At
	_ = f.ledger.Add(o) // its time, if nothing else, is right for a new one
	return fmt.Errorf("the ledger of GPU time begins anew: %w", err)
}

// Describe implements prometheus.Collector.
func (f *Fleet) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range f.descs {
		ch <- d
	}
	f.waits.describe(ch)
}

// Collect implements prometheus.Collector.
func (f *Fleet) Collect(ch chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.leading {
		return
	}
	for i := range f.gauges {
		ch <- f.gauges[i].metric()
	}
	f.times(ch)
	f.counts.collect(f.descs, ch)
	f.waits.collect(ch)
}
