package dcgm

import (
	"fmt"
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// detectLoss marks a GPU that DCGM reports as lost, records its return, and reports whether it is
// there: one that NVML no longer lists, as it was given to a virtual machine, DCGM lists as detached
// until its host engine ends. The status costs a call, so it is read only of a GPU without a fresh
// value.
func (r *reader) detectLoss(gpu uint32, dev *collect.Entity, now time.Time) (there bool) {
	known, log, status := r.known[entityKey{kindGPU, gpu}], r.events.log(dev.UUID), godcgm.EntityStatusOk
	answers := r.answers(dev, now)
	if !answers {
		status = godcgm.GetGPUStatus(uint(gpu))
	}
	// What is not known is no sign that it is back.
	lost := status == godcgm.EntityStatusLost || status == godcgm.EntityStatusUnknown && known.Lost
	if lost && !known.Lost {
		r.options.Log.Warn("dcgm: GPU is lost", "gpu", gpu, "uuid", dev.UUID)
	}
	if lost || status == godcgm.EntityStatusDetached {
		log.Away(time.Time{})
	}
	if log.Observe(dev, answers, now) {
		r.options.Log.Info("dcgm: GPU is back", "gpu", gpu, "uuid", dev.UUID)
	}
	known.Lost, dev.Lost = lost, lost
	return status != godcgm.EntityStatusDetached
}

// answers reports whether a GPU has a value that was taken lately.
func (s *sampling) answers(dev *collect.Entity, now time.Time) bool {
	return slices.ContainsFunc(dev.Values, func(v collect.Value) bool { return v.Field != fieldXID && s.isFresh(v, now) })
}

// stuckAfter is how long an embedded host engine may give no value of any GPU.
const stuckAfter = time.Minute

// detectStuck gives an error, upon which the host engine is started again, when an embedded
// one has given no value of any GPU for long: after XID 119 DCGM makes no more calls to the
// driver until it is. A remote one is not ours to start.
func (r *reader) detectStuck(reading *collect.Reading, now time.Time) error {
	stuck := false
	for i := range reading.Entities {
		if e := &reading.Entities[i]; e.Kind == collect.GPU && !e.Lost {
			if r.answers(e, now) {
				r.answered = now
			}
			stuck = true
		}
	}
	if age := now.Sub(r.answered); r.options.embedded() && stuck && age > stuckAfter {
		return fmt.Errorf("no GPU has had a value for %s", age.Round(time.Second))
	}
	return nil
}

// isFresh reports whether a value was taken lately. A host engine that no
// longer samples a GPU keeps returning the last values.
func (s *sampling) isFresh(v collect.Value, now time.Time) bool {
	return now.Sub(v.Time) <= collect.StaleAfter(s.every)
}
