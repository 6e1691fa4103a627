package collect

// Results of DCGM's health watches, as the series shows them.
const (
	HealthPass = 0
	HealthWarn = 10
	HealthFail = 20
)

// Incident is a finding of DCGM's health watches on a card.
type Incident struct {
	Watch  string // "PCIE", "NVLINK", …: one of HealthWatches
	Result int    // HealthWarn or HealthFail
	Error  string // "DCGM_FR_…"
}

// HealthReport is what DCGM's health watches say of a card.
type HealthReport struct {
	Incidents []Incident
}

// HealthWatches are DCGM's health watches of a card.
var HealthWatches = []string{"PCIE", "NVLINK", "PMU", "MCU", "MEM", "SM", "INFOROM", "THERMAL", "POWER", "DRIVER"}

// of returns the worst incident of a watch, or a pass.
func (h *HealthReport) of(watch string) Incident {
	worst := Incident{Watch: watch, Result: HealthPass, Error: "DCGM_FR_OK"}
	for _, i := range h.Incidents {
		if i.Watch == watch && i.Result > worst.Result {
			worst = i
		}
	}
	return worst
}

// addHealthStatus has a series for each watch of each card.
func addHealthStatus(c *CompatOptions, m *Moment, page *pageFamily) {
	c.eachWholeCard(m, func(card *Entity, l *labelSet) {
		if card.Health == nil {
			return
		}
		for _, watch := range HealthWatches {
			i := card.Health.of(watch)
			page.add(l.dcgm("health_watch", watch, "health_error_code", i.Error), float64(i.Result), m.taken)
		}
	})
}
