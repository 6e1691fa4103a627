package collect

import (
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
)

// Words of gpu_healthy's reason label. A GPU that an XID condemns has "xid_79" and the like.
// One that the driver wants to be reset has "recovery_reset". One that fails a health watch
// of DCGM has "health_pcie".
const (
	reasonOK       = "ok"
	reasonLost     = "lost"
	reasonRowRemap = "row_remap_failure"
	reasonXID      = "xid_"
	reasonRecovery = "recovery_"
	reasonWatch    = "health_"
)

// recoveryActions are NVML's nvmlDeviceGpuRecoveryAction_t that concern this GPU; 6 and 7 came with
// NVML 615. The others are about its peers: 3 their traffic, 5 the IMEX domain.
var recoveryActions = map[float64]string{1: "reset", 2: "reboot", 4: "drain_and_reset", 6: "bus_reset", 7: "system_reboot"}

// healthOf returns the gravest finding and its time. The time is zero if no value says
// anything about the GPU's health: it is then unknown.
func healthOf(e *Entity, now time.Time) (reason string, taken time.Time) {
	if xid, ok := condemnedBy(e); ok {
		return reasonXID + strconv.Itoa(xid), now
	}
	if e.Lost {
		return reasonLost, now
	}
	action := e.number(fieldRecoveryAction)
	if recoveryActions[action.Number] != "" {
		return reasonRecovery + recoveryActions[action.Number], action.Time
	}
	remap := e.number(fieldRowRemapFailure)
	if remap.Number != 0 {
		return reasonRowRemap, remap.Time
	}
	if e.Health != nil {
		// DCGM's watch ALL reports an XID until the host engine ends, even after a reset. XIDs since the GPU's return, or
		// since the source was opened, are judged above; of those before it the driver's recovery action decides.
		judged := e.Events != nil && (!e.Events.Returned.IsZero() || e.Events.Listening && action.Known() && action.Number == 0)
		for _, i := range e.Health {
			if i.Result == HealthFail && !(judged && i.Watch == "ALL") {
				return reasonWatch + strings.ToLower(i.Watch), now
			}
		}
		return reasonOK, now
	}
	if e.number(FieldXID).Known() || e.Events != nil && e.Events.Listening {
		return reasonOK, now
	}
	return reasonOK, remap.Time
}

// condemnedBy returns the newest XID after which the GPU needs a repair. It
// counts until the GPU has been away and has returned. An application's own
// later XIDs change nothing.
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
			note(x.Code, x.Time)
		}
	}
	if v := e.number(FieldXID); v.Known() {
		note(int64(v.Number), v.Time)
	}
	return int(newest.Code), newest.Code != 0 && (returned.IsZero() || newest.Time.After(returned))
}

// GPUHealth is one GPU's health in a reading.
type GPUHealth struct {
	GPU    int
	UUID   string
	Known  bool   // false: no value says anything about it
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
