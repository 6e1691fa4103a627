package collect

import "strconv"

// Results of DCGM's health watches, as the series shows them.
const (
	HealthPass = 0
	HealthWarn = 10
	HealthFail = 20
)

// Incident is a finding of DCGM's health watches on a GPU.
type Incident struct {
	Watch  string // "PCIE", "NVLINK", …: one of HealthWatches
	Result int    // HealthWarn or HealthFail
	Error  string // "DCGM_FR_…"
}

// HealthReport is the result of DCGM's health watches of a GPU.
type HealthReport struct {
	Incidents []Incident
}

// HealthWatches are DCGM's health watches of a GPU.
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

// addHealthStatus has a series for each watch of each GPU.
func addHealthStatus(c *CompatOptions, m *Moment, page *pageFamily) {
	c.eachWholeGPU(m, func(device *Entity, l *labelSet) {
		if device.Health == nil {
			return
		}
		for _, watch := range HealthWatches {
			i := device.Health.of(watch)
			page.add(l.dcgm("health_watch", watch, "health_error_code", i.Error), float64(i.Result), m.taken)
		}
	})
}

// Peer is the state of the NVLink path from a GPU to another.
type Peer struct {
	GPU    int // the other GPU
	Status int // NVML's peer-to-peer status; 0 is fine
}

// peerStatus names NVML's states as dcgm-exporter does.
func peerStatus(status int) string {
	names := []string{
		"OK", "ChipsetNotSupported", "GPUNotSupported", "TopologyNotSupported", "DisabledByRegKey", "NotSupported",
	}
	if status < 0 || status >= len(names) {
		return "Unknown"
	}
	return names[status]
}

// addPeerStatus has a series for each pair of GPUs.
func addPeerStatus(c *CompatOptions, m *Moment, page *pageFamily) {
	c.eachWholeGPU(m, func(device *Entity, l *labelSet) {
		for _, p := range device.Peers {
			page.add(l.dcgm("peer_gpu", strconv.Itoa(p.GPU), "link_status", peerStatus(p.Status)), float64(p.Status), m.taken)
		}
	})
}
