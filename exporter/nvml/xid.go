package nvml

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// maxEvents bounds how many events one Read takes; the driver queues the rest.
const maxEvents = 256

// events receives XIDs through NVML's event set.
type events struct {
	lib        *library
	set        nvml.EventSet
	usable     bool
	registered map[string]bool // by GPU UUID: whether its events are subscribed to
}

func newEvents(lib *library) *events {
	e := &events{lib: lib, registered: map[string]bool{}}
	for _, name := range []string{"nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait_v2", "nvmlDeviceRegisterEvents"} {
		if !lib.has(name) {
			return e
		}
	}
	set, ret := lib.EventSetCreate()
	e.set, e.usable = set, ret == nvml.SUCCESS
	return e
}

func (e *events) close() {
	if e.usable {
		_ = e.set.Free()
	}
}

// subscribe registers a GPU once and reports whether its XIDs are received.
func (e *events) subscribe(uuid string, dev nvml.Device) bool {
	if !e.usable {
		return false
	}
	subscribed, known := e.registered[uuid]
	if !known {
		subscribed = dev.RegisterEvents(nvml.EventTypeXidCriticalError, e.set) == nvml.SUCCESS
		e.registered[uuid] = subscribed
	}
	return subscribed
}

// take hands over the events since the last call.
func (e *events) take(got func(dev nvml.Device, code int64)) {
	for range maxEvents {
		if !e.usable {
			return
		}
		event, ret := e.set.Wait(0)
		if ret != nvml.SUCCESS {
			return // NVML_ERROR_TIMEOUT: there is none
		}
		if event.EventType == nvml.EventTypeXidCriticalError {
			got(event.Device, int64(event.EventData))
		}
	}
}

// gpuLog gathers the events of one GPU.
type gpuLog struct {
	*collect.EventLog
	last collect.Event // the last XID
	lost bool          // as of the last read
}

func (l *gpuLog) xid(code int64, at time.Time) {
	l.last = collect.Event{Time: at, Code: code}
	l.AddXID(l.last)
}

// seen records a read of the GPU: its return after a loss, and its throttle
// reasons.
func (l *gpuLog) seen(dev *collect.Entity, now time.Time) {
	if l.lost && !dev.Lost {
		l.Returned(now)
	}
	l.lost = dev.Lost
	if v, ok := dev.Value(fieldClocks); ok {
		l.AddClocks(collect.Event{Time: v.Time, Code: int64(v.Number)})
	}
}
