package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// throttleReasons are the clock event reasons that reduce a GPU's clocks, by
// the driver's bit. Idleness (bit 1) is not one of them.
var throttleReasons = clockReasons[1:]

// addThrottled adds the time since the value before to each active reason.
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

// throttleSeconds has a series for each reason of each GPU that reports them:
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
