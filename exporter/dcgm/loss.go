package dcgm

// #include "shim.h"
import "C"

import (
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// entityLost is DcgmEntityStatusLost.
const entityLost = 4

// detectLoss marks a GPU that DCGM reports as lost, and records its return. The
// status costs a call, so it is read only of a GPU without a fresh value.
func (r *reader) detectLoss(gpu uint32, dev *collect.Entity, now time.Time) error {
	id := r.devs[gpu]
	lost := false
	if !slices.ContainsFunc(dev.Values, func(v collect.Value) bool { return v.Field != fieldXID && r.isFresh(v, now) }) {
		var status C.int
		code := C.shim_gpu_status(C.uintptr_t(hostHandle), C.uint(gpu), &status)
		err := callError("reading a GPU's status", code)
		if severs(err) {
			return err
		}
		lost = status == entityLost
		if err != nil {
			lost = id.away // no sign that it is back, either
		}
	}
	if id.away && !lost {
		r.events.log(id.uuid).Returned(now)
		r.options.Log.Info("dcgm: GPU is back", "gpu", gpu, "uuid", id.uuid)
	}
	if lost && !id.away {
		r.options.Log.Warn("dcgm: GPU is lost", "gpu", gpu, "uuid", id.uuid)
	}
	id.away, dev.Lost = lost, lost
	return nil
}

// isFresh reports whether a value was taken lately. A host engine that no
// longer samples a GPU keeps returning the last values.
func (r *reader) isFresh(v collect.Value, now time.Time) bool {
	return now.Sub(v.Time) <= collect.StaleAfter(r.every)
}
