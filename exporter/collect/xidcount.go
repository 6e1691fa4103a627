package collect

import (
	"strconv"
	"time"
)

// eventWindow is the default window of windowed counts, as in dcgm-exporter.
const eventWindow = 5 * time.Minute

// windowLabel is the value of window_size_in_ms.
func windowLabel(window time.Duration) (time.Duration, string) {
	if window <= 0 {
		window = eventWindow
	}
	return window, strconv.FormatInt(window.Milliseconds(), 10)
}

// addXIDWindow counts the XIDs of the window by code. A GPU without any has one
// series without a code, at 0.
func addXIDWindow(c *CompatOptions, m *Moment, page *pageFamily) {
	window, label := windowLabel(c.XIDWindow)
	c.eachGPU(m, func(device *Entity, l *labelSet) {
		if device.Events == nil {
			return // not known, which is not none
		}
		events := since(device.Events.RecentXIDs, m.taken.Add(-window))
		for i := range events {
			if n, first := countCode(events, i); first {
				page.add(l.dcgm("window_size_in_ms", label, "xid", strconv.FormatInt(events[i].Code, 10)), float64(n), m.taken)
			}
		}
		if len(events) == 0 {
			page.add(l.dcgm("window_size_in_ms", label), 0, m.taken)
		}
	})
}

// countCode counts the events with the code of event i and reports whether i is
// the first of them.
func countCode(events []Event, i int) (n int, first bool) {
	for k := range events {
		if events[k].Code != events[i].Code {
			continue
		}
		if k < i {
			return 0, false
		}
		n++
	}
	return n, true
}

// addXIDTotals has a series for each code seen since the start.
func addXIDTotals(c *CompatOptions, m *Moment, page *pageFamily) {
	c.eachGPU(m, func(device *Entity, l *labelSet) {
		if device.Events == nil {
			return
		}
		for _, x := range device.Events.XIDs {
			page.add(l.dcgm("xid", strconv.FormatInt(x.Code, 10)), float64(x.Total), m.taken)
		}
	})
}
