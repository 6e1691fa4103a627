package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

func power() family {
	return family{desc: metric.GPUPowerWatts, collect: func(m *Moment, d *metric.Desc, add adder) {
		addCards(m, fieldPowerWatts, func(s *subject, watts float64, taken time.Time) { add(s.text(d), watts, taken) })
	}}
}

// energy shows the card's tally while the card tells its own counter.
func energy() family {
	return family{desc: metric.GPUEnergyJoulesTotal, collect: func(m *Moment, d *metric.Desc, add adder) {
		addCards(m, fieldEnergyMilli, func(s *subject, _ float64, taken time.Time) { add(s.text(d), s.tally.joules, taken) })
	}}
}

// addCards hands over a field of each card. Instances repeat the card's number
// where the driver gives them one: it is not theirs.
func addCards(m *Moment, field uint16, add func(s *subject, number float64, taken time.Time)) {
	for i := range m.subjects {
		s := &m.subjects[i]
		if v, ok := s.number(field); ok && s.entity.Kind == GPU && v.Number >= 0 {
			add(s, v.Number, v.Time)
		}
	}
}
