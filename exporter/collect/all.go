package collect

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// served are our metric families in the order in which they are served.
var served = []*metric.Desc{
	&metric.GPUInfo, &metric.GPUInstanceInfo, &metric.GPUHeld,
	&metric.GPUBusyRatio, &metric.GPUInstanceBusyRatio, &metric.GPUShareRatio, &metric.GPUMemoryUsedBytes, &metric.GPUMemoryTotalBytes,
	&metric.GPUPowerWatts, &metric.GPUEnergyJoulesTotal, &metric.GPUBusySecondsTotal, &metric.GPUThrottleSecondsTotal,
	&metric.GPUIdleSeconds, &metric.GPUHealthy, &metric.GPUXIDErrorsTotal,
	&metric.GPUSampleAgeSeconds, &metric.GPUAttributionAgeSeconds,
}

// adder takes one sample of a family. One without a time is unknown and left out.
type adder func(d *metric.Desc, labels string, value float64, taken time.Time)

// families returns our series of a Moment.
func (m *Moment) families() []pageFamily {
	out, at := make([]pageFamily, len(served)), make(map[*metric.Desc]*pageFamily, len(served))
	for i, d := range served {
		// An age is computed from the sample's time when a scrape is written. It never becomes
		// stale, since it shows the staleness of the others.
		aging := d == &metric.GPUSampleAgeSeconds || d == &metric.GPUAttributionAgeSeconds
		out[i] = pageFamily{name: d.Name, help: d.Help, kind: string(d.Type), aging: aging}
		at[d] = &out[i]
	}
	add := func(d *metric.Desc, labels string, value float64, taken time.Time) { at[d].add(labels, value, taken) }
	for i := range m.subjects {
		m.addEntity(&m.subjects[i], add)
	}
	add(&metric.GPUAttributionAgeSeconds, labelText(metric.LabelNode, m.node), 0, m.attribution) // none before the kubelet has answered
	return out
}

// addEntity adds the series of an entity and of its allocations. On a shared GPU only gpu_held
// always names all pods. The other series name them only if the driver measures their
// processes.
func (m *Moment) addEntity(s *subject, add adder) {
	of := func(s *subject, d *metric.Desc, value float64, taken time.Time) {
		add(d, s.labels.text(d), value, taken)
	}
	info, busy := &metric.GPUInfo, &metric.GPUBusyRatio
	if s.entity.Kind == Instance {
		info, busy = &metric.GPUInstanceInfo, &metric.GPUInstanceBusyRatio
	}
	of(s, info, 1, m.taken)
	for i := range s.allocations {
		of(&s.allocations[i], &metric.GPUHeld, 1, m.taken)
	}
	of(s, busy, s.busy.Number, s.busy.Time)
	if !s.split { // its instances stand for it, so that a sum over the series counts nothing twice
		divided := func(d *metric.Desc, total Value, part func(*Allocated) Value) {
			add := func(s *subject, part Value) { of(s, d, part.Number, part.Time) }
			if !s.addDivided(total, part, add) {
				add(s, total)
			}
		}
		if weight, known := weight(s.entity); known {
			divided(&metric.GPUShareRatio, s.busy.times(weight), func(u *Allocated) Value { return u.Busy.times(weight) })
			of(s, &metric.GPUBusySecondsTotal, s.tally.busy, s.busy.Time) // the integral of the share
		}
		divided(&metric.GPUMemoryUsedBytes, s.entity.number(fieldFBUsed).times(mebibyte), func(u *Allocated) Value { return u.Memory })
		total := s.memoryTotal()
		of(s, &metric.GPUMemoryTotalBytes, total.Number, total.Time)
	}
	for a := range s.idling {
		of(a, &metric.GPUIdleSeconds, a.idle.Seconds(), a.busy.Time)
	}
	of(s, &metric.GPUSampleAgeSeconds, 0, latest(time.Time{}, s.entity.Values))
	if s.entity.Kind == GPU {
		m.addGPU(s, add)
	}
}

// addGPU adds the series that describe a GPU and never an instance, although the driver may
// repeat their values for one.
func (m *Moment) addGPU(s *subject, add adder) {
	one := func(d *metric.Desc, v Value) { add(d, s.labels.text(d), v.Number, v.Time) }
	one(&metric.GPUPowerWatts, s.entity.number(fieldPowerWatts))
	one(&metric.GPUEnergyJoulesTotal, Value{Number: s.tally.joules, Time: s.entity.number(fieldEnergyMilli).Time})
	if v := s.entity.number(fieldClockEvents); v.Known() { // at 0 too, or the first throttling would show no increase
		for i, reason := range clockReasons[1:] { // without gpu_idle, which is no throttling
			add(&metric.GPUThrottleSecondsTotal, s.labels.with(&metric.GPUThrottleSecondsTotal, metric.LabelReason, reason), s.tally.throttled[i+1], v.Time)
		}
	}
	reason, taken := healthOf(s.entity, m.taken)
	healthy := 0.0
	if reason == reasonOK {
		healthy = 1
	}
	add(&metric.GPUHealthy, s.labels.with(&metric.GPUHealthy, metric.LabelReason, reason), healthy, taken)
	if events := s.entity.Events; events != nil { // unknown is not zero
		totals := events.totals("")
		for _, code := range slices.Sorted(maps.Keys(totals)) {
			xid := strconv.FormatInt(code, 10)
			add(&metric.GPUXIDErrorsTotal, s.labels.with(&metric.GPUXIDErrorsTotal, metric.LabelXID, xid), float64(totals[code]), m.taken)
		}
	}
}

// gpus yields the GPUs.
func (m *Moment) gpus(yield func(*subject) bool) {
	for i := range m.subjects {
		if s := &m.subjects[i]; s.entity.Kind == GPU && !yield(s) {
			return
		}
	}
}

const mebibyte = 1 << 20

// memoryTotal is FB_TOTAL in bytes, or the sum of its parts where all of them are known.
func (s *subject) memoryTotal() (sum Value) {
	if total := s.entity.number(fieldFBTotal); total.Known() {
		return total.times(mebibyte)
	}
	for _, field := range []uint16{fieldFBFree, fieldFBUsed, fieldFBReserved} {
		v := s.entity.number(field)
		if !v.Known() {
			return Value{}
		}
		if !sum.Known() || v.Time.Before(sum.Time) {
			sum.Time = v.Time
		}
		sum.Number += v.Number * mebibyte
	}
	return sum
}

// idling yields the subjects that are idle or busy as one: each allocation, and before them the
// entity itself if its allocations belong to one pod and the driver does not measure their parts.
func (s *subject) idling(yield func(*subject) bool) {
	apart := slices.ContainsFunc(s.allocations, func(a subject) bool { return a.busy.Known() })
	if len(s.allocations) > 1 && s.labels.allocation.Pod != "" && !apart && !yield(s) {
		return
	}
	for i := range s.allocations {
		if !yield(&s.allocations[i]) {
			return
		}
	}
}
