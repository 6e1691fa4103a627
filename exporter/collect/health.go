package collect

import (
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
)

// Words of gpu_healthy's reason label. A GPU condemned by an XID has "xid_79"
// and the like, one that the driver wants reset "recovery_reset", one that a health watch of
// DCGM fails "health_pcie".
const (
	reasonOK       = "ok"
	reasonLost     = "lost"
	reasonRowRemap = "row_remap_failure"
	reasonXID      = "xid_"
	reasonRecovery = "recovery_"
	reasonWatch    = "health_"
)

// recoveryActions are NVML's nvmlDeviceGpuRecoveryAction_t that concern this GPU. The others
// are about its peers: 3 their traffic, 5 the IMEX domain.
var recoveryActions = map[float64]string{1: "reset", 2: "reboot", 4: "drain_and_reset"}

// healthOf takes the gravest finding first. The time is zero where no value bears on the GPU's
// health: it is unknown then.
func healthOf(e *Entity, now time.Time) (reason string, taken time.Time) {
	if xid, ok := condemnedBy(e); ok {
		return reasonXID + strconv.Itoa(xid), now
	}
	if e.Lost {
		return reasonLost, now
	}
	if v, ok := e.number(fieldRecoveryAction); ok && recoveryActions[v.Number] != "" {
		return reasonRecovery + recoveryActions[v.Number], v.Time
	}
	remap, _ := e.number(fieldRowRemapFailure)
	if remap.Number != 0 {
		return reasonRowRemap, remap.Time
	}
	if e.Health != nil {
		// DCGM finds XIDs in all of the GPU until its host engine ends; those since it has returned are judged above.
		returned := e.Events != nil && !e.Events.Returned.IsZero()
		for _, i := range e.Health.Incidents {
			if i.Result == HealthFail && !(returned && i.Watch == "ALL") {
				return reasonWatch + strings.ToLower(i.Watch), now
			}
		}
		return reasonOK, now
	}
	if _, hasXID := e.number(fieldXID); hasXID || e.Events != nil && e.Events.Listening {
		return reasonOK, now
	}
	return reasonOK, remap.Time
}

// condemnedBy is the newest XID after which the GPU needs a repair. It stands
// until the GPU has been away and has returned; an application's own XIDs after
// it change nothing.
func condemnedBy(e *Entity) (int, bool) {
	var newest Event
	note := func(code int64, at time.Time) {
		if gpu.XIDCondemns(int(code)) && (newest.Code == 0 || at.After(newest.Time)) {
			newest = Event{Time: at, Code: code}
		}
	}
	var returned time.Time
	if events := e.Events; events != nil {
		returned = events.Returned
		for _, x := range events.XIDs {
			note(x.Code, x.Last)
		}
	}
	if v, ok := e.number(fieldXID); ok {
		note(int64(v.Number), v.Time)
	}
	return int(newest.Code), newest.Code != 0 && (returned.IsZero() || newest.Time.After(returned))
}

// GPUHealth is one GPU's health in a reading.
type GPUHealth struct {
	GPU    int
	UUID   string
	Known  bool   // false: no value bears on it
	Reason string // as gpu_healthy has it; "ok" where it is healthy
}

// Healthy reports whether the GPU is known to be healthy.
func (h GPUHealth) Healthy() bool { return h.Known && h.Reason == reasonOK }

// Health returns the health of each GPU of a reading, as gpu_healthy has it.
func Health(r *Reading) []GPUHealth {
	var out []GPUHealth
	for i := range r.Entities {
		if e := &r.Entities[i]; e.Kind == GPU {
			reason, taken := healthOf(e, r.Taken)
			out = append(out, GPUHealth{GPU: e.GPU, UUID: e.UUID, Known: !taken.IsZero(), Reason: reason})
		}
	}
	return out
}
