package collect

import (
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// labelSet has the labels of an entity under an allocation, and renders them: `a="1",b="2"`.
type labelSet struct {
	node       string
	entity     *Entity
	allocation Allocation
	compat     string // label text of the DCGM series; it ends with held
	held       string // the part of compat about the allocation
}

// value returns the value of a label of the catalogue, "" if it does not apply.
func (l *labelSet) value(name string) string {
	e := l.entity
	switch name {
	case metric.LabelNode:
		return l.node
	case metric.LabelGPU:
		return strconv.Itoa(e.GPU)
	case metric.LabelGPUUUID:
		return e.UUID
	case metric.LabelModel:
		return e.Model
	case metric.LabelPCIBusID:
		return e.PCIBusID
	case metric.LabelMIG:
		return strconv.FormatBool(e.MIG)
	case metric.LabelDriverVersion:
		return e.DriverVersion
	case metric.LabelNamespace:
		return l.allocation.Namespace
	case metric.LabelPod:
		return l.allocation.Pod
	case metric.LabelContainer:
		return l.allocation.Container
	}
	switch {
	case e.Kind != Instance:
	case name == metric.LabelGPUInstanceID:
		return strconv.Itoa(e.InstanceID)
	case name == metric.LabelProfile:
		return e.Profile
	case name == metric.LabelInstanceUUID:
		return e.InstanceUUID
	case name == metric.LabelStart && e.Start >= 0:
		return strconv.Itoa(e.Start)
	case name == metric.LabelSize && e.Size > 0:
		return strconv.Itoa(e.Size)
	}
	return ""
}

// text returns d's labels. A label without a value is left out: absent, never empty.
func (l *labelSet) text(d *metric.Desc) string {
	b := make([]byte, 0, 256)
	for _, names := range [][]string{d.Labels, d.Optional} {
		for _, name := range names {
			b = appendLabel(b, name, l.value(name))
		}
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
	// on the entity.
	dcgm      []*labelSet
	allocated Allocated // only of a subject in allocations
	// allocations has one subject for each container the entity is allocated
	// to.
	allocations []subject
	device      int           // index in Moment.subjects of the entity's GPU
	split       bool          // a GPU with instances on it
	selected    bool          // it has DCGM series of its own
	busy        Value         // 0 … 1
	tally       *tally        // running totals; not of a subject in allocations
	idle        time.Duration // how long it has been allocated without computing; only of what idling yields
}

// Moment is a Reading joined with its allocations and with the totals of
// earlier readings.
type Moment struct {
	taken       time.Time
	attribution time.Time // zero where unknown
	subjects    []subject
	devices     []subject // beside GPUs and instances; of DCGM series only
	node        string
}
