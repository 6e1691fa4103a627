package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// family is one of our metric families and how a Moment gives its samples.
type family struct {
	desc metric.Desc
	// aging families show the age of their samples' time at the moment of the
	// scrape, whatever number was added, and never go stale: they show the
	// staleness of the others.
	aging   bool
	collect func(m *Moment, d *metric.Desc, add adder)
}

// adder takes one sample. The label text is a family's d rendered by a subject.
type adder func(labels string, value float64, taken time.Time)

// sample is a subject's one value in a family; false where it has none.
type sample func(m *Moment, s *subject) (value float64, taken time.Time, ok bool)

// of is the family of one sample a subject.
func of(desc metric.Desc, value sample) family {
	return family{desc: desc, collect: func(m *Moment, d *metric.Desc, add adder) {
		for i := range m.subjects {
			s := &m.subjects[i]
			if v, taken, ok := value(m, s); ok {
				add(s.text(d), v, taken)
			}
		}
	}}
}

// all lists our families in the order in which they are served.
func all() []family {
	return []family{
		of(metric.GPUInfo, there(GPU)), of(metric.GPUInstanceInfo, there(Instance)), allocated(),
		of(metric.GPUBusyRatio, busyRatio(GPU)), of(metric.GPUInstanceBusyRatio, busyRatio(Instance)), shareRatio(),
		memoryUsed(), memoryTotal(),
		of(metric.GPUPowerWatts, power), of(metric.GPUEnergyJoulesTotal, energy), of(metric.GPUBusySecondsTotal, busySeconds), throttleSeconds(),
		idle(), healthy(), xidErrors(),
		sampleAge(), attributionAge(),
	}
}

// there gives 1 for each entity of a kind.
func there(kind EntityKind) sample {
	return func(m *Moment, s *subject) (float64, time.Time, bool) { return 1, m.taken, s.entity.Kind == kind }
}

// allocated has one series for each allocation. On a shared GPU no other family
// names the pods, except where the driver measures processes.
func allocated() family {
	return family{desc: metric.GPUHeld, collect: func(m *Moment, d *metric.Desc, add adder) {
		for s := range m.allocated {
			add(s.text(d), 1, m.taken)
		}
	}}
}

func busyRatio(kind EntityKind) sample {
	return func(_ *Moment, s *subject) (float64, time.Time, bool) {
		return s.busy.value, s.busy.taken, s.busy.known && s.entity.Kind == kind
	}
}

// busySeconds is the integral of gpu_share_ratio: an entity has it where it has
// that.
func busySeconds(_ *Moment, s *subject) (float64, time.Time, bool) {
	_, weighed := weight(s.entity)
	return s.tally.busy, s.busy.taken, weighed && s.busy.known && !s.split
}

func power(_ *Moment, s *subject) (float64, time.Time, bool) {
	v, ok := s.ofGPU(fieldPowerWatts)
	return v.Number, v.Time, ok
}

// energy shows the GPU's tally while the GPU reports its own counter.
func energy(_ *Moment, s *subject) (float64, time.Time, bool) {
	v, ok := s.ofGPU(fieldEnergyMilli)
	return s.tally.joules, v.Time, ok
}

// ofGPU is a field of a GPU. The driver may repeat the GPU's number for an
// instance; it does not describe the instance.
func (s *subject) ofGPU(field uint16) (Value, bool) {
	v, ok := s.number(field)
	return v, ok && s.entity.Kind == GPU && v.Number >= 0
}

// sampleAge has a series for every entity of the last Reading, however old.
func sampleAge() family {
	f := of(metric.GPUSampleAgeSeconds, func(_ *Moment, s *subject) (float64, time.Time, bool) {
		var newest time.Time
		for _, v := range s.entity.Values {
			if v.Time.After(newest) {
				newest = v.Time
			}
		}
		return 0, newest, !newest.IsZero()
	})
	f.aging = true
	return f
}

// attributionAge is absent until the kubelet has answered once.
func attributionAge() family {
	return family{desc: metric.GPUAttributionAgeSeconds, aging: true, collect: func(m *Moment, d *metric.Desc, add adder) {
		if !m.attribution.IsZero() {
			add(m.node.text(d), 0, m.attribution)
		}
	}}
}
