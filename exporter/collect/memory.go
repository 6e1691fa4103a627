package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

const mebibyte = 1 << 20

func memoryUsed() family {
	return family{desc: metric.GPUMemoryUsedBytes, collect: func(m *Moment, d *metric.Desc, add adder) {
		addMemory(m, d, add, func(s *subject) (float64, time.Time, bool) {
			v, ok := s.number(fieldFBUsed)
			return v.Number, v.Time, ok
		}, func(h *Usage) Measured { return h.Memory })
	}}
}

func memoryTotal() family {
	return family{desc: metric.GPUMemoryTotalBytes, collect: func(m *Moment, d *metric.Desc, add adder) {
		addMemory(m, d, add, totalMiB, nil)
	}}
}

// addMemory adds a size in MiB for each GPU, or for the instances of a
// partitioned one: a sum over the series counts no byte twice. Containers that
// share an entity have their own parts where part knows them.
func addMemory(m *Moment, d *metric.Desc, add adder, size func(*subject) (float64, time.Time, bool), part func(*Usage) Measured) {
	for i := range m.subjects {
		s := &m.subjects[i]
		if s.split {
			continue
		}
		mib, taken, ok := size(s)
		if !ok || mib < 0 {
			continue
		}
		text := func(s *subject) string { return s.text(d) }
		if part == nil || !s.addDivided(mib*mebibyte, taken, part, text, add) {
			add(s.text(d), mib*mebibyte, taken)
		}
	}
}

// totalMiB is FB_TOTAL, or the sum of its parts where all of them are known.
func totalMiB(s *subject) (float64, time.Time, bool) {
	if v, ok := s.number(fieldFBTotal); ok {
		return v.Number, v.Time, true
	}
	sum, taken := 0.0, time.Time{}
	for _, field := range []uint16{fieldFBFree, fieldFBUsed, fieldFBReserved} {
		v, ok := s.number(field)
		if !ok {
			return 0, time.Time{}, false
		}
		if taken.IsZero() || v.Time.Before(taken) {
			taken = v.Time
		}
		sum += v.Number
	}
	return sum, taken, true
}
