package counters

// Series that dcgm-exporter computes from several fields or from events. The
// counters file asks for them by name; they have no DCGM field, so each has a
// number of its own beyond DCGM's, which identifies its Field.
const (
	XIDErrorsCount   uint16 = 9001 + iota // XIDs in a window
	ClockEventsCount                      // samples in a window with a throttle reason set
	GPUHealthStatus                       // DCGM's health watches
	P2PStatus                             // NVLink to each peer
	XIDErrorsTotal                        // XIDs since the start
	ClockEventsTotal                      // throttle reasons that set in since the start
)

// computedNames are in dcgm-exporter 4.8.4.
var computedNames = map[string]uint16{
	"DCGM_EXP_XID_ERRORS_COUNT":   XIDErrorsCount,
	"DCGM_EXP_CLOCK_EVENTS_COUNT": ClockEventsCount,
	"DCGM_EXP_GPU_HEALTH_STATUS":  GPUHealthStatus,
	"DCGM_EXP_P2P_STATUS":         P2PStatus,
	"DCGM_EXP_XID_ERRORS_TOTAL":   XIDErrorsTotal,
	"DCGM_EXP_CLOCK_EVENTS_TOTAL": ClockEventsTotal,
}

// Computed reports whether the field is one of those above and no DCGM field: a
// source cannot be asked for it.
func (f Field) Computed() bool { return f.ID >= XIDErrorsCount && f.ID <= ClockEventsTotal }
