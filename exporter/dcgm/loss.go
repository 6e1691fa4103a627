package dcgm

import (
	"fmt"
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// detectLoss marks a GPU that DCGM reports as lost and records its return. It reports whether the
// GPU is there. A GPU that NVML no longer lists, for example one given to a virtual machine, is
// detached: DCGM lists it until the host engine ends. The status costs a call, so it is read only
// for a GPU without a fresh value.
func (r *reader) detectLoss(gpu uint32, dev *collect.Entity, now time.Time) (there bool) {
	known, log, status := r.known[entityKey{kindGPU, gpu}], r.events.log(dev.UUID), godcgm.EntityStatusOk
	answers := r.answers(dev, now)
	if !answers {
		status = godcgm.GetGPUStatus(uint(gpu))
	}
	// An unknown status does not mean that the GPU is back.
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

// answers reports whether a GPU has a value that was taken lately. A host engine that no longer
// samples a GPU keeps returning the last values.
func (s *sampling) answers(dev *collect.Entity, now time.Time) bool {
	return slices.ContainsFunc(dev.Values, func(v collect.Value) bool {
		return v.Field != collect.FieldXID && now.Sub(v.Time) <= collect.StaleAfter(s.every)
	})
}

// stuckAfter is how long an embedded host engine may go without a value of any
// GPU.
const stuckAfter = time.Minute

// detectStuck returns an error if an embedded host engine has given no value of any GPU for
// longer than stuckAfter. The host engine is then started again: after XID 119 DCGM makes
// no more calls to the driver until that is done. A remote host engine is not ours to
// start.
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
