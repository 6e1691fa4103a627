package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// ConditionType is the condition of the Node: "True" while all its GPUs are
// healthy.
const ConditionType = "GPUHealthy"

// Reasons of the condition, and of the Events beside it.
const (
	reasonHealthy   = "AllGPUsHealthy"
	reasonUnhealthy = "GPUsUnhealthy"
	reasonUnknown   = "HealthUnknown"
)

// How long a state lasts before it is reported: an unhealthy one soon, a
// healthy one later, so that the condition does not flap with a GPU.
const (
	badAfter     = 10 * time.Second
	goodAfter    = time.Minute
	unknownAfter = 2 * time.Minute
)

// verdict is the content of the condition.
type verdict struct {
	status  string // "True", "False", "Unknown"
	reason  string
	message string
}

// judge sums up the GPUs: one unhealthy GPU makes the node so; a node without a
// GPU of known health is unknown. why is the reason for a missing reading, else
// nil.
func judge(gpus []collect.GPUHealth, why error) verdict {
	if why != nil {
		return verdict{"Unknown", reasonUnknown, why.Error()}
	}
	var bad []string
	healthy := 0
	for _, c := range gpus {
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
		return verdict{"Unknown", reasonUnknown, "the health of no GPU is known"}
	}
	return verdict{"True", reasonHealthy, fmt.Sprintf("%d of %d GPUs are healthy, none is known to be unhealthy", healthy, len(gpus))}
}

// debouncer delays a verdict until it has lasted. The caller passes the time.
type debouncer struct {
	reported verdict // zero: nothing yet
	pending  verdict
	since    time.Time // of pending
}

// observe takes a verdict and returns the one to report, and whether it is new.
func (d *debouncer) observe(v verdict, now time.Time) (verdict, bool) {
	if !v.alike(d.pending) {
		d.since = now
	}
	d.pending = v
	if v.alike(d.reported) {
		d.reported.message = v.message
		return d.reported, false
	}
	if now.Sub(d.since) < v.settles() {
		return d.reported, false
	}
	d.reported = v
	return v, true
}

// alike compares what an Event reports: of an unhealthy node the GPUs and
// reasons, of others the status only.
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
