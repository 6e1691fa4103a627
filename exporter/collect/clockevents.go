package collect

// clockReasons are DCGM's bits of field 112 and their names in DCGM's tools.
var clockReasons = [...]struct {
	bit  int64
	name string
}{
	{0x1, "gpu_idle"}, {0x2, "clocks_setting"}, {0x4, "power_cap"}, {0x8, "hw_slowdown"}, {0x10, "sync_boost"},
	{0x20, "sw_thermal"}, {0x40, "hw_thermal"}, {0x80, "hw_power_brake"}, {0x100, "display_clocks"},
}

// addClockWindow counts the samples of the window in which a reason was set, so
// the number depends on the sampling interval: as in dcgm-exporter. A GPU
// without any has one series without a reason, at 0.
func addClockWindow(c *CompatOptions, m *Moment, page *pageFamily) {
	window, label := windowLabel(c.ClockEventsWindow)
	c.eachGPU(m, func(device *Entity, l *labelSet) {
		if device.Events == nil {
			return
		}
		samples := since(device.Events.ClockSamples, m.taken.Add(-window))
		if len(samples) == 0 {
			return // unknown, not zero
		}
		any := false
		for _, r := range clockReasons {
			n := 0
			for _, s := range samples {
				if s.Code&r.bit != 0 {
					n++
				}
			}
			if n > 0 {
				any = true
				page.add(l.dcgm("window_size_in_ms", label, "clock_event", r.name), float64(n), m.taken)
			}
		}
		if !any {
			page.add(l.dcgm("window_size_in_ms", label), 0, m.taken)
		}
	})
}

// addClockTotals counts how often each reason has set in since the start.
func addClockTotals(c *CompatOptions, m *Moment, page *pageFamily) {
	c.eachGPU(m, func(device *Entity, l *labelSet) {
		if device.Events == nil {
			return
		}
		for _, x := range device.Events.ClockChanges {
			for _, r := range clockReasons {
				if r.bit == x.Code {
					page.add(l.dcgm("clock_event", r.name), float64(x.Total), m.taken)
				}
			}
		}
	})
}
