package collect

// busyOf measures how busy an entity is. GR_ENGINE_ACTIVE is a mean over the
// interval and the same quantity on GPUs and instances; GPU_UTIL, the driver's
// short-window percentage, stands in on GPUs without profiling. On instances
// GPU_UTIL would be the GPU's.
func busyOf(e *Entity) Value {
	busy := e.number(FieldEngineActive)
	if !busy.Known() && e.Kind == GPU {
		busy = e.number(fieldGPUUtil)
		busy.Number /= 100
	}
	return busy
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
	parts := s.divide(s.busy.Number, func(h *Allocated) Value { return h.Busy })
	for j := range s.allocations {
		s.allocations[j].busy = parts[j]
	}
}

// divide gives the part of each allocation in a total, in their order; unknown
// where the driver does not measure it. The driver measures processes and GPUs
// at different moments, so where the parts sum to more than the total all are
// scaled down: the sum over pods never exceeds the GPU.
func (s *subject) divide(total float64, of func(*Allocated) Value) []Value {
	parts, sum := make([]Value, len(s.allocations)), 0.0
	for j := range s.allocations {
		if m := of(&s.allocations[j].allocated); m.Known() && m.Number >= 0 {
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

// addDivided adds an entity's total as the parts of the containers that share it. What remains
// beside the known parts is added without a container. It reports whether any part was known.
func (s *subject) addDivided(total Value, of func(*Allocated) Value, add func(*subject, Value)) (some bool) {
	if len(s.allocations) < 2 || !total.Known() {
		return false
	}
	rest := total
	for j, part := range s.divide(total.Number, of) {
		if part.Known() {
			add(&s.allocations[j], part)
			rest.Number -= part.Number
			some = true
		}
	}
	if rest.Number = max(0, rest.Number); some {
		add(s, rest)
	}
	return some
}

// addShares adds GPU_UTIL or FB_USED of a shared entity as the parts of its
// containers, and the rest without a container. It reports whether it did.
// dcgm-exporter serves the whole GPU beside the parts, so a sum counts it twice.
func (c *CompatOptions) addShares(s *subject, field uint16, v Value, page *pageFamily) bool {
	if !c.VirtualGPUs {
		return false
	}
	add := func(s *subject, part Value) { page.add(s.labels.compat, part.Number, part.Time) }
	switch field {
	case fieldGPUUtil:
		return s.addDivided(v, func(u *Allocated) Value { return u.Busy.times(100) }, add)
	case fieldFBUsed:
		return s.addDivided(v, func(u *Allocated) Value { return u.Memory.times(1.0 / mebibyte) }, add)
	}
	return false
}
