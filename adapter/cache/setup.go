package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Querier is the part of *prom.Client the cache needs.
type Querier interface {
	QueryWithin(ctx context.Context, promql string, at time.Time, most prom.Limits) (prom.Vector, error)
}

// Options bound the cache's queries and how long a request may wait.
type Options struct {
	// Interval between two queries of one active question, jittered by a tenth.
	Interval time.Duration
	// IdleAfter is how long a namespace is asked about after the last request.
	IdleAfter time.Duration
	// FirstWait bounds how long the first request in a namespace waits.
	FirstWait time.Duration
	// Timeout bounds a query about one namespace. One about several has a quarter
	// of it, so that a namespace that is slow delays the others little.
	Timeout time.Duration
	// Concurrency bounds the queries in flight, per backend. Namespaces that are
	// asked about by themselves have as many in addition.
	Concurrency int
	// MaxQuestions bounds the questions of Watch, each namespace counted; 2,000 if
	// zero. Rules do not count. No namespace has more than a tenth.
	MaxQuestions int
	// Budget is what an answer about one namespace may have. One about several may
	// have twice as much.
	Budget prom.Limits
}

// Used where Options leave a field zero.
const (
	DefaultMaxQuestions = 2000
	defaultTimeout      = 10 * time.Second
)

// DefaultBudget is used where Options leave Budget zero: 50,000 series are a rule's
// values and times for 2,000 pods with a dozen parts each.
var DefaultBudget = prom.Limits{Series: 50_000, Bytes: 32 << 20}

func (o Options) withDefaults() Options {
	if o.MaxQuestions == 0 {
		o.MaxQuestions = DefaultMaxQuestions
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Budget.Series == 0 && o.Budget.Bytes == 0 {
		o.Budget = DefaultBudget
	}
	return o
}

// Rule is a signal and its backend.
type Rule struct {
	signal.Rule
	// Backend to ask; "" is DefaultBackend.
	Backend string
}

// Backend is a server to query.
type Backend struct {
	Name    string
	Querier Querier
	// NamespaceParameter, if not "", is a parameter with the one namespace that each
	// query is about: the server answers only about that.
	NamespaceParameter string
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
	shared, own chan struct{} // slots: of queries about several namespaces, and about one at fault
}

// width is how many namespaces one query may be about.
func (s *server) width() int {
	if s != nil && s.NamespaceParameter != "" {
		return 1
	}
	return maxWidth
}

// plan is a prepared Setup. It is immutable.
type plan struct {
	opts     Options
	backends map[string]*server
	rules    map[string]*topic
	sorted   []signal.Rule
}

var (
	errNoBackend    = errors.New("no such backend is configured")
	errRepeatedName = errors.New("is declared twice")
)

func prepare(s Setup) (*plan, error) {
	p := &plan{opts: s.Options.withDefaults(), backends: map[string]*server{}, rules: map[string]*topic{}}
	slots := max(1, s.Options.Concurrency)
	for _, b := range s.Backends {
		if p.backends[b.Name] != nil {
			return nil, fmt.Errorf("backend %s %w", b.Name, errRepeatedName)
		}
		p.backends[b.Name] = &server{Backend: b, shared: make(chan struct{}, slots), own: make(chan struct{}, slots)}
	}
	for _, r := range s.Rules {
		if r.Backend == "" {
			r.Backend = DefaultBackend
		}
		switch {
		case p.rules[r.Name] != nil:
			return nil, fmt.Errorf("rule %s %w", r.Name, errRepeatedName)
		case p.backends[r.Backend] == nil:
			return nil, fmt.Errorf("rule %s: backend %q: %w", r.Name, r.Backend, errNoBackend)
		}
		t := newTopic(forRule(r), p.backends[r.Backend].width())
		t.empty = signal.NewTable(r.Rule)
		p.rules[r.Name] = t
		p.sorted = append(p.sorted, r.Rule)
	}
	slices.SortFunc(p.sorted, func(a, b signal.Rule) int { return strings.Compare(a.Name, b.Name) })
	return p, nil
}
