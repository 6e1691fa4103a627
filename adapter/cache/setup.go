package cache

import (
	"context"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Querier is the part of *prom.Client the cache needs.
type Querier interface {
	QueryWithin(ctx context.Context, promql string, at time.Time, most prom.Limits) (prom.Vector, error)
}

// Options bound the cache's queries and how long a request may wait. The tags are those of
// the configuration file.
type Options struct {
	// Interval between two queries of one active question, jittered by a tenth.
	Interval time.Duration `json:"interval"`
	// IdleAfter is how long a namespace is queried after its last request.
	IdleAfter time.Duration `json:"idleAfter"`
	// FirstWait bounds how long the first request in a namespace waits.
	FirstWait time.Duration `json:"firstWait"`
	// Timeout bounds a query about a namespace that is asked about by itself.
	// Other queries get a quarter of it, so that one slow namespace delays the
	// others little.
	Timeout time.Duration `json:"-"`
	// Concurrency bounds the queries in flight, per backend. Queries about a
	// namespace by itself have the same number of slots in addition.
	Concurrency int `json:"concurrency"`
	// MaxQuestions bounds the questions of Watch in one namespace. Rules do not count.
	MaxQuestions int `json:"maxQuestions"`
	// Budget bounds an answer about one namespace. An answer about several may be
	// twice as large.
	Budget prom.Limits `json:"-"`
}

// DefaultOptions are those of an empty configuration. 50,000 series are a rule's values and
// times for 2,000 pods with a dozen parts each.
func DefaultOptions() Options {
	return Options{
		Interval: 15 * time.Second, IdleAfter: 10 * time.Minute, FirstWait: 3 * time.Second, Timeout: prom.DefaultTimeout,
		Concurrency: 4, MaxQuestions: 200, Budget: prom.Limits{Series: 50_000, Bytes: 32 << 20},
	}
}

// Backend is a server to query.
type Backend struct {
	Name    string
	Querier Querier
	// NamespaceParameter, if not "", is the URL parameter for the namespace of each
	// query. The server then answers about that one namespace only.
	NamespaceParameter string
}

// Setup is the cache's part of a configuration.
type Setup struct {
	Options  Options
	Backends []Backend
	Rules    []signal.Rule
}

// server is a Backend in use.
type server struct {
	Backend
	shared, own chan struct{} // slots: of most queries, and of those about a namespace by itself
}

// DefaultBackend is the backend of a question that names none.
const DefaultBackend = "default"

// Question is what the cache asks a backend, for one namespace or for several at
// once. Rule, Backend and Version identify it; two questions equal in these are
// one, and the first one's functions serve both.
type Question struct {
	// Rule is the label of metrics and logs.
	Rule string
	// Backend to ask; "" is DefaultBackend.
	Backend string
	// Version distinguishes the questions of one rule.
	Version string
	// Past: a table knows the answers before its own, and a namespace's first one the
	// recent past. Without it a table knows its own answer only.
	Past bool
	// Queries returns the queries about some namespaces, of the present or of
	// the recent past. The answers together are complete.
	Queries func(past bool, namespaces []string) []string
	// Namespace returns which namespace a series is about, "" for none. Nil means that the
	// queries are about one namespace, or about the cluster: they are sent for each namespace
	// by itself.
	Namespace func(prom.Labels) string
	// Empty is a namespace's table before the first answer.
	Empty *signal.Table
	// Suspects, if not nil, returns a smaller query for each series in one
	// namespace, with the series' name. They help to find the series at fault.
	Suspects func(namespace string) (names, queries []string)

	declared bool // by a rule of the Setup: not counted among those of Watch
}

// key identifies a question.
type key struct{ rule, backend, version string }

func (q Question) key() key { return key{q.Rule, q.Backend, q.Version} }

// Samples returns the samples of an answer to a rule.
func Samples(v prom.Vector) []signal.Sample {
	all, sample := make([]signal.Sample, len(v)), signal.Sampler()
	for i, s := range v {
		all[i] = sample(s.Labels, s.Value)
	}
	return all
}

// forRule returns the question whose states are the rule's tables.
func forRule(r signal.Rule) Question {
	return Question{
		Rule: r.Name, Backend: r.Backend, Past: true, declared: true,
		Queries:   func(past bool, namespaces []string) []string { return r.Queries(past, namespaces...) },
		Namespace: r.Namespace,
		Empty:     signal.NewTable(r),
		Suspects:  r.Suspects,
	}
}
