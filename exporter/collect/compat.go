package collect

import (
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/exporter/collect/counters"
)

// Compat says how the DCGM_* series are served.
type Compat string

// Ways to serve the DCGM names.
const (
	// CompatExact has the series dcgm-exporter has: a card cut into MIG
	// instances shows its instances only, and each repeats the card's own
	// quantities (power, temperature, clocks), so a sum counts them several times.
	CompatExact Compat = "exact"
	// CompatOnce has each quantity once: the card's on the card.
	CompatOnce Compat = "once"
	// CompatOff has no DCGM names.
	CompatOff Compat = "off"
)

// CompatOptions shape the labels of the DCGM series as dcgm-exporter's flags do.
type CompatOptions struct {
	Mode     Compat
	Counters []counters.Field
	// Hostname is the value of the hostname label; empty leaves it out (-n).
	Hostname string
	// OldNamespace uses the label names from before Kubernetes 1.16:
	// pod_name, pod_namespace, container_name, uuid (-o).
	OldNamespace bool
	// DashedModel replaces blanks in the model name by dashes.
	DashedModel bool
}

// perInstance reports whether a field is measured on the instance itself. What
// is not is the card's: DCGM answers it for an instance with the card's number.
func perInstance(field uint16) bool {
	switch {
	case field >= fieldFBTotal && field <= 254: // frame buffer
		return true
	case field >= 203 && field <= 207: // utilization: the driver has none under MIG
		return true
	}
	return field > 1000 && field < 1100 // profiling
}

// compatValue is the value that a DCGM series of the subject shows.
func (c *CompatOptions) compatValue(m *Moment, s *subject, field uint16) (Value, bool) {
	if c.Mode == CompatExact && s.split {
		return Value{}, false
	}
	if s.entity.Kind == Instance && !perInstance(field) {
		if c.Mode == CompatOnce {
			return Value{}, false
		}
		if v, ok := s.number(field); ok {
			return v, true
		}
		return m.subjects[s.card].number(field)
	}
	return s.number(field)
}

// families returns the DCGM series of a Moment in the counters file's order.
func (c *CompatOptions) families(m *Moment) []pageFamily {
	out := make([]pageFamily, 0, len(c.Counters))
	for i := range c.Counters {
		f := &c.Counters[i]
		if f.Kind == counters.Label {
			continue
		}
		page := pageFamily{name: f.Name, help: f.Help, kind: string(f.Kind)}
		for j := range m.subjects {
			s := &m.subjects[j]
			v, ok := c.compatValue(m, s, f.ID)
			if !ok {
				continue
			}
			labels, taken := s.labels.compat, v.Time
			if f.ID == fieldXID {
				labels, taken = s.labels.xid(int(v.Number)), m.taken
			}
			page.add(labels, v.Number, taken)
		}
		out = append(out, page)
	}
	return out
}

// labels renders what identifies the entity in the DCGM series, in
// dcgm-exporter's order; extra are the label-type counters' values.
func (c *CompatOptions) labels(e *Entity, h Holder, extra string) string {
	uuid, pod, namespace, container := "UUID", "pod", "namespace", "container"
	if c.OldNamespace {
		uuid, pod, namespace, container = "uuid", "pod_name", "pod_namespace", "container_name"
	}
	index := strconv.Itoa(e.GPU)
	b := appendLabel(nil, "gpu", index)
	b = appendLabel(b, uuid, e.UUID)
	b = appendLabel(b, "pci_bus_id", e.PCIBusID)
	b = appendLabel(b, "device", "nvidia"+index)
	b = appendLabel(b, "modelName", c.model(e.Model))
	if e.Kind == Instance {
		b = appendLabel(b, "GPU_I_PROFILE", e.Profile)
		b = appendLabel(b, "GPU_I_ID", strconv.Itoa(e.InstanceID))
	}
	b = appendLabel(b, "hostname", c.Hostname)
	if extra != "" {
		b = append(append(b, ','), extra...)
	}
	b = appendLabel(b, container, h.Container)
	b = appendLabel(b, namespace, h.Namespace)
	b = appendLabel(b, pod, h.Pod)
	return string(b)
}

// extra renders the label-type counters of an entity; an instance takes the
// card's where it has none of its own.
func (c *CompatOptions) extra(e, card *Entity) string {
	var b []byte
	for i := range c.Counters {
		f := &c.Counters[i]
		if f.Kind != counters.Label {
			continue
		}
		v, ok := e.Value(f.ID)
		if !ok {
			v, ok = card.Value(f.ID)
		}
		switch {
		case ok && v.IsText:
			b = appendLabel(b, f.Name, v.Text)
		case ok:
			b = appendLabel(b, f.Name, strconv.FormatFloat(v.Number, 'f', -1, 64))
		case f.ID == 1: // the driver version is known without asking for the field
			b = appendLabel(b, f.Name, e.DriverVersion)
		}
	}
	return string(b)
}

// model is the product name as the modelName label has it.
func (c *CompatOptions) model(name string) string {
	if c.DashedModel {
		return strings.Join(strings.Fields(name), "-")
	}
	return name
}
