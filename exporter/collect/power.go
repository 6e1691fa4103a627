package collect

import "github.com/gpuscale/gpuscale/gpu/metric"

func power() family {
	return family{desc: metric.GPUPowerWatts, collect: func(m *Moment, d *metric.Desc, add adder) {
		addCards(m, d, fieldPowerWatts, 1, add)
	}}
}

func energy() family {
	return family{desc: metric.GPUEnergyJoulesTotal, collect: func(m *Moment, d *metric.Desc, add adder) {
		addCards(m, d, fieldEnergyMilli, 1000, add)
	}}
}

// addCards adds a field of each card, divided into its base unit. Instances
// repeat the card's number where the driver gives them one: it is not theirs.
func addCards(m *Moment, d *metric.Desc, field uint16, divisor float64, add adder) {
	for i := range m.subjects {
		s := &m.subjects[i]
		if v, ok := s.number(field); ok && s.entity.Kind == GPU && v.Number >= 0 {
			add(s.text(d), v.Number/divisor, v.Time)
		}
	}
}
