package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// throttleReasons are the clock event reasons that hold a card's clocks down, by
// the driver's bit. That the card is idle (bit 1) holds nothing back.
var throttleReasons = [...]struct {
	bit  int64
	name string
}{
	{0x2, "clocks_setting"}, {0x4, "power_cap"}, {0x8, "hw_slowdown"}, {0x10, "sync_boost"},
	{0x20, "sw_thermal"}, {0x40, "hw_thermal"}, {0x80, "hw_power_brake"}, {0x100, "display_clocks"},
}

// addThrottled adds the time since the value before to each reason that holds.
func (t *tally) addThrottled(s *subject, maxGap time.Duration) {
	v, ok := s.number(fieldClockEvents)
	if !ok || s.entity.Kind != GPU {
		return
	}
	seconds := sinceLast(&t.throttleAt, v.Time, maxGap)
	for i, r := range throttleReasons {
		if int64(v.Number)&r.bit != 0 {
			t.throttled[i] += seconds
		}
	}
}

// throttleSeconds has a series for each reason of each card that tells them:
// those at 0 too, or the first throttling would show no increase.
func throttleSeconds() family {
	return family{desc: metric.GPUThrottleSecondsTotal, collect: func(m *Moment, d *metric.Desc, add adder) {
		for i := range m.subjects {
			s := &m.subjects[i]
			v, ok := s.number(fieldClockEvents)
			if !ok || s.entity.Kind != GPU {
				continue
			}
			for j, r := range throttleReasons {
				add(s.labels.with(d, metric.LabelReason, r.name), s.tally.throttled[j], v.Time)
			}
		}
	}}
}
