package collect

import "github.com/gpuscale/gpuscale/gpu/metric"

// shareRatio weighs each instance by its compute slices, so that a card's
// series sum to at most 1. A card cut into instances has no series of its own:
// its instances are the card.
func shareRatio() family {
	return family{desc: metric.GPUShareRatio, collect: func(m *Moment, d *metric.Desc, add adder) {
		for i := range m.subjects {
			s := &m.subjects[i]
			if !s.busy.known || s.split {
				continue
			}
			if weight, ok := weight(s.entity); ok {
				add(s.text(d), s.busy.value*weight, s.busy.taken)
			}
		}
	}}
}

// weight is the part of the card's compute that the entity is, 0 … 1; false
// where the slices are not known.
func weight(e *Entity) (float64, bool) {
	if e.Kind == GPU {
		return 1, true
	}
	if e.ComputeSlices <= 0 || e.CardMaxCompute < e.ComputeSlices {
		return 0, false
	}
	return float64(e.ComputeSlices) / float64(e.CardMaxCompute), true
}
