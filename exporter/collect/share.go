package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// shareRatio weighs each instance by its compute slices, so that a card's
// series sum to at most 1. A card cut into instances has no series of its own:
// its instances are the card. Where several containers share an entity and the
// driver tells their parts, each has its own, and what is left over stands
// without a holder.
func shareRatio() family {
	return family{desc: metric.GPUShareRatio, collect: func(m *Moment, d *metric.Desc, add adder) {
		for i := range m.subjects {
			s := &m.subjects[i]
			if !s.busy.known || s.split {
				continue
			}
			weight, ok := weight(s.entity)
			if !ok {
				continue
			}
			rest := s.busy.value
			for j := range s.holders {
				if part := &s.holders[j]; part.busy.known {
					add(part.text(d), part.busy.value*weight, part.busy.taken)
					rest -= part.busy.value
				}
			}
			if s.holder == (Holder{}) {
				add(s.text(d), max(0, rest)*weight, s.busy.taken)
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

// divideBusy gives each holder of an entity its part of what the entity
// computes. A sole holder has all of it.
func (s *subject) divideBusy() {
	if len(s.holders) == 1 {
		s.holders[0].busy = s.busy
		return
	}
	if !s.busy.known {
		return // nothing bounds what the holders would be said to do
	}
	parts := s.divide(s.busy.value, func(h *Hold) Measured { return h.Busy })
	for j := range s.holders {
		if parts[j].Known() {
			s.holders[j].busy = ratio{value: parts[j].Number, taken: parts[j].Time, known: true}
		}
	}
}

// divide gives what each holder has of a total, in the order of holders; not
// known where the driver does not tell. The driver measures processes and cards
// at different moments, so where the parts sum to more than the total all are
// scaled down: the sum over pods never exceeds the card.
func (s *subject) divide(total float64, of func(*Hold) Measured) []Measured {
	parts, sum := make([]Measured, len(s.holders)), 0.0
	for j := range s.holders {
		if m := of(&s.holders[j].hold); m.Known() && m.Number >= 0 {
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

// addDivided adds a total of an entity: to its sole holder, or in the parts of
// those who share it with what is left over under no holder. It reports whether
// there were parts.
func (s *subject) addDivided(total float64, taken time.Time, of func(*Hold) Measured, text func(*subject) string, add adder) bool {
	if len(s.holders) < 2 {
		return false
	}
	rest, some := total, false
	for j, part := range s.divide(total, of) {
		if part.Known() {
			add(text(&s.holders[j]), part.Number, part.Time)
			rest -= part.Number
			some = true
		}
	}
	if some {
		add(text(s), max(0, rest), taken)
	}
	return some
}
