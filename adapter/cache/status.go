package cache

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Status is the state of one question in one namespace, for /debug/rules.
type Status struct {
	Rule, Backend, Namespace, Query string
	// Alone: the namespace is asked about by itself, since its series were at
	// fault less than ten minutes ago.
	Alone bool
	// At is when the last good answer came; zero before the first.
	At time.Time
	// Series in that answer, and how many of them were dropped.
	Series  int
	Dropped map[signal.Reason]int
	// Failure of the last query, if it failed.
	Failure error
}

// Status returns all questions in use, by rule, backend and namespace.
func (c *Cache) Status() []Status {
	all := c.status(true)
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Query, b.Query))
	})
	return all
}

func (c *Cache) status(queries bool) []Status {
	var all []Status
	for _, t := range c.topics() {
		first := len(all)
		t.mu.Lock()
		for _, u := range t.units {
			all = append(all, Status{
				Rule: t.Rule, Backend: t.Backend, Namespace: u.namespace, Alone: u.alone,
				At: u.at, Series: u.series, Dropped: u.dropped, Failure: u.err,
			})
		}
		t.mu.Unlock()
		for i := first; queries && i < len(all); i++ {
			all[i].Query = strings.Join(t.Queries(false, []string{all[i].Namespace}), "\n")
		}
	}
	return all
}
