package collect

import (
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// identity is everything the labels of an entity's series are made of. While it
// stays equal, the rendered text is kept.
type identity struct {
	kind          EntityKind
	gpu           int
	uuid          string
	model         string
	pciBusID      string
	mig           bool
	driverVersion string
	instanceID    int
	profile       string
	start, size   int
	instanceUUID  string
	allocation    Allocation
	compat        string // label-type counters' values, rendered
	pod           string // the pod's own labels, rendered
	job           string // batch job; on DCGM series only
}

func identify(e *Entity, h Allocation, x extra) identity {
	return identity{
		kind: e.Kind, gpu: e.GPU, uuid: e.UUID, model: e.Model, pciBusID: e.PCIBusID, mig: e.MIG,
		driverVersion: e.DriverVersion, instanceID: e.InstanceID, profile: e.Profile,
		start: e.Start, size: e.Size, instanceUUID: e.InstanceUUID, allocation: h, compat: x.counters, pod: x.pod, job: x.job,
	}
}

// labelSet renders and keeps the label text of one identity: `a="1",b="2"`.
type labelSet struct {
	id     identity
	node   string
	texts  map[string]string // by series name
	compat string            // of the DCGM series
}

// text returns d's labels for this identity. A label without a value is left
// out: absent, never empty.
func (l *labelSet) text(d *metric.Desc) string {
	if text, ok := l.texts[d.Name]; ok {
		return text
	}
	var b []byte
	for _, name := range d.Labels {
		b = appendLabel(b, name, l.value(name))
	}
	for _, name := range d.Optional {
		b = appendLabel(b, name, l.value(name))
	}
	text := string(b)
	l.texts[d.Name] = text
	return text
}

// value of a label of the catalogue; "" where it does not apply.
func (l *labelSet) value(name string) string {
	switch id := &l.id; name {
	case metric.LabelNode:
		return l.node
	case metric.LabelGPU:
		return strconv.Itoa(id.gpu)
	case metric.LabelGPUUUID:
		return id.uuid
	case metric.LabelModel:
		return id.model
	case metric.LabelPCIBusID:
		return id.pciBusID
	case metric.LabelMIG:
		return strconv.FormatBool(id.mig)
	case metric.LabelDriverVersion:
		return id.driverVersion
	case metric.LabelNamespace:
		return id.allocation.Namespace
	case metric.LabelPod:
		return id.allocation.Pod
	case metric.LabelContainer:
		return id.allocation.Container
	}
	return l.instanceValue(name)
}

func (l *labelSet) instanceValue(name string) string {
	id := &l.id
	if id.kind != Instance {
		return ""
	}
	switch name {
	case metric.LabelGPUInstanceID:
		return strconv.Itoa(id.instanceID)
	case metric.LabelProfile:
		return id.profile
	case metric.LabelInstanceUUID:
		return id.instanceUUID
	case metric.LabelStart:
		if id.start >= 0 {
			return strconv.Itoa(id.start)
		}
	case metric.LabelSize:
		if id.size > 0 {
			return strconv.Itoa(id.size)
		}
	}
	return ""
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
	return append(appendEscaped(b, value, true), '"')
}

// appendEscaped escapes backslash and newline, and quotes where asked, as the
// text format wants it. Bytes that are not UTF-8 become U+FFFD: a driver's
// broken string must not cost the whole scrape.
func appendEscaped(b []byte, text string, quotes bool) []byte {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\\':
			b = append(b, '\\', '\\')
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '"' && quotes:
			b = append(b, '\\', '"')
		default:
			b = append(b, c)
		}
	}
	return b
}

// with returns d's labels and one that the identity does not know.
func (l *labelSet) with(d *metric.Desc, name, value string) string {
	key := d.Name + "\x00" + value
	if text, ok := l.texts[key]; ok {
		return text
	}
	text := string(appendLabel([]byte(l.text(d)), name, value))
	l.texts[key] = text
	return text
}

// subject is what a series describes: an entity, with what its allocations have in common.
type subject struct {
	entity *Entity
	labels *labelSet
	// dcgm are the labels under which a DCGM value stands: one set, or one for
	// each batch job on the entity. None where -d leaves the entity out.
	dcgm []*labelSet
	// allocation and usage are of a subject in allocations.
	allocation Allocation
	usage      Usage
	// allocations has one subject for each container the entity is allocated
	// to.
	allocations []subject
	device      int           // index in Moment.subjects of the entity's GPU
	split       bool          // a GPU with instances on it
	busy        Measured      // 0 … 1
	tally       *tally        // running totals; not of a subject in allocations
	idle        time.Duration // allocated and not computing; valid where busy is known
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

// number returns a numeric value of the entity.
func (s *subject) number(field uint16) (Value, bool) { return s.entity.number(field) }

// text returns the label text of d for this subject.
func (s *subject) text(d *metric.Desc) string { return s.labels.text(d) }
