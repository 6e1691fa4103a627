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

// Streamer is a Querier that passes an answer element by element, like
// *prom.Client. Labels are pairs of name and value in order of name, none empty,
// and valid until take returns. lock is held during take.
type Streamer interface {
	Querier
	Each(ctx context.Context, promql string, at time.Time, lock sync.Locker, take func(labels [][2][]byte, value float64, at time.Time)) error
}

// Options bound the cache's queries and how long a request may wait.
type Options struct {
	// Interval between two queries of one active question, jittered by a tenth.
	Interval time.Duration
	// IdleAfter is how long a question is refreshed after its last request.
	IdleAfter time.Duration
	// FirstWait bounds how long the first request for an idle question waits.
	FirstWait time.Duration
	// Concurrency bounds the queries in flight, per backend.
	Concurrency int
	// MaxQuestions bounds the questions of Watch; 2,000 if zero. Rules do not
	// count.
	MaxQuestions int
}

// DefaultMaxQuestions is used where Options leave MaxQuestions zero.
const DefaultMaxQuestions = 2000

// Rule is a signal and its backend.
type Rule struct {
	signal.Rule
	// Backend to ask; "" is DefaultBackend.
	Backend string
}

// version changes when any part of the rule does.
func (r Rule) version() string {
	raw, err := json.Marshal(r.Rule)
	if err != nil { // an infinity in a bound: the version is unique
		return fmt.Sprintf("%p %v", &r, err)
	}
	return string(raw)
}

// Backend is a server to query.
type Backend struct {
	Name    string
	Querier Querier
	// Version changes when the server's data may: another address, another
	// tenant. The old one's answers are then forgotten.
	Version string
}

// Setup is the cache's part of a configuration.
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

// plan is a prepared Setup. It is immutable.
type plan struct {
	opts     Options
	backends map[string]*server
	rules    map[string]*entry
	sorted   []signal.Rule
}
