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

// noticeLoss marks a card that DCGM says is lost, and notes when it is back. To
// ask costs a call, so only a card without a fresh value is asked about.
func (r *reader) noticeLoss(gpu uint32, card *collect.Entity, now time.Time) error {
	id := r.cards[gpu]
	lost := false
	if !slices.ContainsFunc(card.Values, func(v collect.Value) bool { return v.Field != fieldXID && r.isFresh(v, now) }) {
		var status C.int
		code := C.shim_gpu_status(C.uintptr_t(hostHandle), C.uint(gpu), &status)
		err := callError("asking for a card's status", code)
		if severs(err) {
			return err
		}
		lost = status == entityLost
		if err != nil {
			lost = id.away // nothing tells that it is back, either
		}
	}
	if id.away && !lost {
		r.events.log(id.uuid).Returned(now)
		r.options.Log.Info("DCGM card is back", "gpu", gpu, "uuid", id.uuid)
	}
	if lost && !id.away {
		r.options.Log.Warn("DCGM card is lost", "gpu", gpu, "uuid", id.uuid)
	}
	id.away, card.Lost = lost, lost
	return nil
}

// isFresh reports whether a value was taken lately. A host engine that no longer
// takes samples of a card goes on giving the last ones.
func (r *reader) isFresh(v collect.Value, now time.Time) bool {
	return now.Sub(v.Time) <= collect.StaleAfter(r.every)
}
