package collect

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// labelSet has the labels of an entity under an allocation, and renders them: `a="1",b="2"`.
type labelSet struct {
	allocation Allocation
	values     map[string]string // by name, of the catalogue's labels that apply
	compat     string            // label text of the DCGM series; it ends with held
	held       string            // the part of compat about the allocation
}

// newLabelSet returns a set without the text of DCGM series. A nil entity means
// the node.
func newLabelSet(node string, e *Entity, h Allocation) *labelSet {
	l := &labelSet{allocation: h, values: map[string]string{metric.LabelNode: node}}
	if e == nil {
		return l
	}
	maps.Copy(l.values, map[string]string{
		metric.LabelGPU: strconv.Itoa(e.GPU), metric.LabelGPUUUID: e.UUID, metric.LabelModel: e.Model, metric.LabelPCIBusID: e.PCIBusID,
		metric.LabelMIG: strconv.FormatBool(e.MIG), metric.LabelDriverVersion: e.DriverVersion,
		metric.LabelNamespace: h.Namespace, metric.LabelPod: h.Pod, metric.LabelContainer: h.Container,
	})
	if e.Kind != Instance {
		return l
	}
	maps.Copy(l.values, map[string]string{
		metric.LabelGPUInstanceID: strconv.Itoa(e.InstanceID), metric.LabelProfile: e.Profile, metric.LabelInstanceUUID: e.InstanceUUID,
	})
	if e.Start >= 0 {
		l.values[metric.LabelStart] = strconv.Itoa(e.Start)
	}
	if e.Size > 0 {
		l.values[metric.LabelSize] = strconv.Itoa(e.Size)
	}
	return l
}

// text returns d's labels. A label without a value is left out: absent, never empty.
func (l *labelSet) text(d *metric.Desc) string {
	b := make([]byte, 0, 256)
	for _, name := range d.AllLabels() {
		b = appendLabel(b, name, l.values[name])
	}
	return string(b)
}

// with returns d's labels and one that the entity does not determine.
func (l *labelSet) with(d *metric.Desc, name, value string) string {
	return joinLabels(l.text(d), labelText(name, value))
}

// labelText renders names and values in turn.
func labelText(namesAndValues ...string) string {
	var b []byte
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		b = appendLabel(b, namesAndValues[i], namesAndValues[i+1])
	}
	return string(b)
}

// appendLabel appends `name="value"`, escaped, after a comma where it is not
// the first. An empty value appends nothing.
func appendLabel(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	if len(b) > 0 {
		b = append(b, ',')
	}
	b = append(append(b, name...), '=', '"')
	return append(appendEscaped(b, value, escapedValue), '"')
}

var (
	escapedHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapedValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// appendEscaped escapes as the text format requires. Bytes that are not UTF-8 become U+FFFD: a
// driver's broken string must not cost the whole scrape.
func appendEscaped(b []byte, text string, how *strings.Replacer) []byte {
	return append(b, how.Replace(strings.ToValidUTF8(text, "\uFFFD"))...)
}

// subject is what a series describes: an entity, with what its allocations have in common.
type subject struct {
	entity *Entity
	labels *labelSet
	// dcgm are the label sets of a DCGM value: one, or one for each batch job
	// on the entity; none if -d leaves the entity out.
	dcgm  []*labelSet
	usage Usage // only of a subject in allocations
	// allocations has one subject for each container the entity is allocated
	// to.
	allocations []subject
	device      int           // index in Moment.subjects of the entity's GPU
	split       bool          // a GPU with instances on it
	busy        Measured      // 0 … 1
	tally       *tally        // running totals; not of a subject in allocations
	idle        time.Duration // how long it has been allocated without computing; only of what idling yields
}

// Moment is a Reading joined with its allocations and with the totals of
// earlier readings.
type Moment struct {
	taken       time.Time
	attribution time.Time // zero where unknown
	subjects    []subject
	devices     []deviceSeries
	node        *labelSet // of series about the node itself
}
