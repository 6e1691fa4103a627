package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// ConditionType is the condition that stands on the Node: "True" while all its
// cards are healthy.
const ConditionType = "GPUHealthy"

// Reasons of the condition, and of the Events beside it.
const (
	reasonHealthy   = "AllCardsHealthy"
	reasonUnhealthy = "CardsUnhealthy"
	reasonUnknown   = "HealthUnknown"
)

// How long a state lasts before it is told: bad news after a little, good news
// after long enough not to follow a card that comes and goes.
const (
	badAfter     = 10 * time.Second
	goodAfter    = time.Minute
	unknownAfter = 2 * time.Minute
)

// verdict is what a condition says.
type verdict struct {
	status  string // "True", "False", "Unknown"
	reason  string
	message string
}

// judge sums up the cards: one unhealthy card makes the node so; a node without
// a card that says anything is unknown. why tells why there is no reading; nil
// where there is one.
func judge(cards []collect.CardHealth, why error) verdict {
	if why != nil {
		return verdict{"Unknown", reasonUnknown, why.Error()}
	}
	var bad []string
	healthy := 0
	for _, c := range cards {
		switch {
		case c.Healthy():
			healthy++
		case c.Known:
			bad = append(bad, fmt.Sprintf("GPU %d (%s): %s", c.GPU, c.UUID, c.Reason))
		}
	}
	switch {
	case len(bad) > 0:
		return verdict{"False", reasonUnhealthy, strings.Join(bad, ", ")}
	case healthy == 0:
		return verdict{"Unknown", reasonUnknown, "no card tells how it is"}
	}
	return verdict{"True", reasonHealthy, fmt.Sprintf("%d of %d cards say that they are healthy, none that it is not", healthy, len(cards))}
}

// debouncer holds back a verdict until it has lasted. It is data: time is
// handed to it.
type debouncer struct {
	told    verdict // zero: nothing yet
	pending verdict
	since   time.Time // of pending
}

// observe takes a verdict in and returns the one to tell, and whether it is a
// new one.
func (d *debouncer) observe(v verdict, now time.Time) (verdict, bool) {
	if !v.alike(d.pending) {
		d.since = now
	}
	d.pending = v
	if v.alike(d.told) {
		d.told.message = v.message
		return d.told, false
	}
	if now.Sub(d.since) < v.settles() {
		return d.told, false
	}
	d.told = v
	return v, true
}

// alike compares what a change of is news: of an unhealthy node which cards and
// why, of others the status alone.
func (v verdict) alike(w verdict) bool {
	return v.status == w.status && (v.status != "False" || v.message == w.message)
}

func (v verdict) settles() time.Duration {
	switch v.status {
	case "True":
		return goodAfter
	case "False":
		return badAfter
	}
	return unknownAfter
}

// sortedByCard gives messages an order that does not depend on the reading's.
func sortedByCard(cards []collect.CardHealth) []collect.CardHealth {
	return slices.SortedFunc(slices.Values(cards), func(a, b collect.CardHealth) int { return a.GPU - b.GPU })
}
