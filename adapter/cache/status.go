package cache

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Status is the state of one question, for /debug/rules.
type Status struct {
	Rule, Backend, Query string
	// Active: it is refreshed each interval.
	Active bool
	// At is when the last good answer came; zero before the first.
	At time.Time
	// Series in that answer, and how many of them were dropped.
	Series  int
	Dropped map[signal.Reason]int
	// Failure of the last query, if it failed.
	Failure error
}

// Status returns all questions, by rule, backend and query.
func (c *Cache) Status() []Status {
	entries := c.entries()
	all := make([]Status, len(entries))
	for i, e := range entries {
		a := e.latest.Load()
		all[i] = Status{
			Rule: e.Rule, Backend: e.Backend, Query: e.Query, Active: e.active(),
			At: a.at, Series: a.series, Dropped: a.dropped, Failure: e.failure(),
		}
	}
	slices.SortFunc(all, func(a, b Status) int {
		return strings.Compare(a.Rule+"\x00"+a.Backend+"\x00"+a.Query, b.Rule+"\x00"+b.Backend+"\x00"+b.Query)
	})
	return all
}
