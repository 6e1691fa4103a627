package collect

import (
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// overshoot is how far above 1 a ratio may be and still be a rounding of 1.
const overshoot = 0.01

// busyOf measures how busy an entity is. GR_ENGINE_ACTIVE is a mean over the
// interval and the same quantity on GPUs and instances; GPU_UTIL, the driver's
// short-window percentage, stands in on GPUs without profiling. On instances
// GPU_UTIL would be the GPU's.
func busyOf(e *Entity) Measured {
	if v, ok := e.Value(fieldEngineActive); ok {
		return toRatio(v, 1)
	}
	if v, ok := e.Value(fieldGPUUtil); ok && e.Kind == GPU {
		return toRatio(v, 100)
	}
	return Measured{}
}

// toRatio divides by whole; a number outside 0 … whole is invalid.
func toRatio(v Value, whole float64) Measured {
	r := v.Number / whole
	if v.IsText || !(r >= 0 && r <= 1+overshoot) {
		return Measured{}
	}
	return Measured{Number: min(r, 1), Time: v.Time}
}

// divided is a quantity of each GPU, or of the instances of a partitioned one, so that a sum over the
// series counts nothing twice. Containers that share an entity have their own parts where they are
// known, and the rest stands without a container.
func divided(desc metric.Desc, total sample, part func(*subject, *Usage) Measured) family {
	return family{desc: desc, collect: func(m *Moment, d *metric.Desc, add adder) {
		text := func(s *subject) string { return s.text(d) }
		for i := range m.subjects {
			s := &m.subjects[i]
			v, taken, ok := total(m, s)
			if ok && !s.split && !s.addDivided(v, taken, func(u *Usage) Measured { return part(s, u) }, text, add) {
				add(s.text(d), v, taken)
			}
		}
	}}
}

// share weighs each instance by its compute slices, so that a GPU's series sum to at most 1.
func share(_ *Moment, s *subject) (float64, time.Time, bool) {
	weight, ok := weight(s.entity)
	return s.busy.Number * weight, s.busy.Time, ok && s.busy.Known()
}

func partOfShare(s *subject, u *Usage) Measured {
	weight, _ := weight(s.entity)
	return u.Busy.times(weight)
}

// weight is the part of the GPU's compute that the entity is, 0 … 1; false
// where the slices are not known.
func weight(e *Entity) (float64, bool) {
	if e.Kind == GPU {
		return 1, true
	}
	if e.ComputeSlices <= 0 || e.GPUMaxCompute < e.ComputeSlices {
		return 0, false
	}
	return float64(e.ComputeSlices) / float64(e.GPUMaxCompute), true
}

// divideBusy gives each allocation of an entity its part of what the entity
// computes. A sole allocation has all of it.
func (s *subject) divideBusy() {
	if len(s.allocations) == 1 {
		s.allocations[0].busy = s.busy
		return
	}
	if !s.busy.Known() {
		return // no total bounds the parts
	}
	parts := s.divide(s.busy.Number, func(h *Usage) Measured { return h.Busy })
	for j := range s.allocations {
		s.allocations[j].busy = parts[j]
	}
}

// divide gives the part of each allocation in a total, in their order; unknown
// where the driver does not measure it. The driver measures processes and GPUs
// at different moments, so where the parts sum to more than the total all are
// scaled down: the sum over pods never exceeds the GPU.
func (s *subject) divide(total float64, of func(*Usage) Measured) []Measured {
	parts, sum := make([]Measured, len(s.allocations)), 0.0
	for j := range s.allocations {
		if m := of(&s.allocations[j].usage); m.Known() && m.Number >= 0 {
			parts[j] = m
			sum += m.Number
		}
	}
	if sum > total {
		for j := range parts {
			parts[j].Number *= total / sum
		}
	}
	return parts
}

// addDivided adds a total of an entity: to its sole allocation, or in the parts
// of those that share it, with the rest under no container. It reports whether
// there were parts.
func (s *subject) addDivided(total float64, taken time.Time, of func(*Usage) Measured, text func(*subject) string, add adder) bool {
	if len(s.allocations) < 2 {
		return false
	}
	rest, some := total, false
	for j, part := range s.divide(total, of) {
		if part.Known() {
			add(text(&s.allocations[j]), part.Number, part.Time)
			rest -= part.Number
			some = true
		}
	}
	if some {
		add(text(s), max(0, rest), taken)
	}
	return some
}

// usageLabels renders the labels of an allocation on the DCGM series: the DRA
// claim, and with --kubernetes-virtual-gpus the share. A container with several
// shares of one GPU has one series: vgpu="0,2".
func (c *CompatOptions) usageLabels(u Usage) string {
	vgpu := ""
	if c.VirtualGPUs && len(u.Shares) > 0 {
		vgpu = string(appendLabel(nil, "vgpu", strings.Join(u.Shares, ",")))
	}
	return joinLabels(u.Claim.labels(), vgpu)
}

// addShares adds GPU_UTIL or FB_USED of a shared entity in the parts of its
// containers and what is left over without one, and reports whether it did.
// dcgm-exporter has the whole GPU beside the parts, so that a sum counts it twice.
func (c *CompatOptions) addShares(s *subject, field uint16, v Value, page *pageFamily) bool {
	if !c.VirtualGPUs || v.IsText {
		return false
	}
	compat := func(s *subject) string { return s.labels.compat }
	switch field {
	case fieldGPUUtil:
		return s.addDivided(v.Number, v.Time, func(h *Usage) Measured { return h.Busy.times(100) }, compat, page.add)
	case fieldFBUsed:
		return s.addDivided(v.Number, v.Time, func(h *Usage) Measured { return h.Memory.times(1.0 / mebibyte) }, compat, page.add)
	}
	return false
}

func (m Measured) times(factor float64) Measured {
	m.Number *= factor
	return m
}
