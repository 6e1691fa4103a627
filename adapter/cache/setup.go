package cache

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Querier is the part of *prom.Client the cache needs.
type Querier interface {
	Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error)
}

// Streamer is a Querier that can hand out an answer element by element, like
// *prom.Client. Labels are pairs of name and value in order of name, none empty,
// and hold until take returns. turn is held meanwhile.
type Streamer interface {
	Querier
	Each(ctx context.Context, promql string, at time.Time, turn sync.Locker, take func(labels [][2][]byte, value float64, at time.Time)) error
}

// Options bound what the cache asks and how long a request may wait.
type Options struct {
	// Interval between two queries of one active question, give or take a tenth.
	Interval time.Duration
	// IdleAfter is how long a question is asked after the last request for it.
	IdleAfter time.Duration
	// FirstWait bounds how long the first request for an idle question waits.
	FirstWait time.Duration
	// Concurrency bounds the queries under way at once, per backend.
	Concurrency int
	// MaxQuestions bounds what Watch keeps answered; 2,000 if zero. Rules do
	// not count.
	MaxQuestions int
}

// DefaultMaxQuestions is used where Options leave MaxQuestions zero.
const DefaultMaxQuestions = 2000

// Rule is a signal and where to ask for it.
type Rule struct {
	signal.Rule
	// Backend to ask; "" is DefaultBackend.
	Backend string
}

// version changes when any part of the rule does.
func (r Rule) version() string {
	raw, err := json.Marshal(r.Rule)
	if err != nil { // an infinity in a bound: no version in common with anything
		return fmt.Sprintf("%p %v", &r, err)
	}
	return string(raw)
}

// Backend is a server to ask.
type Backend struct {
	Name    string
	Querier Querier
	// Version changes when the server's data may: another address, another
	// tenant. What was learnt from the old one is then forgotten.
	Version string
}

// Setup is all that a configuration says to the cache.
type Setup struct {
	Options  Options
	Backends []Backend
	Rules    []Rule
}

// server is a Backend in use.
type server struct {
	Backend
	slots chan struct{}
}

// plan is a Setup made ready. It is never changed.
type plan struct {
	opts     Options
	backends map[string]*server
	rules    map[string]*entry
	sorted   []signal.Rule
}
