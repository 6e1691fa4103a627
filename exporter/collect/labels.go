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

func identify(e *Entity) identity {
	return identity{
		kind: e.Kind, gpu: e.GPU, uuid: e.UUID, model: e.Model, pciBusID: e.PCIBusID, mig: e.MIG,
		driverVersion: e.DriverVersion, instanceID: e.InstanceID, profile: e.Profile,
		start: e.Start, size: e.Size, instanceUUID: e.InstanceUUID,
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
	values := l.id.values()
	values[metric.LabelNode] = l.node
	for _, name := range d.AllLabels() {
		b = appendLabel(b, name, values[name])
	}
	text := string(b)
	l.texts[d.Name] = text
	return text
}

// values are those of the catalogue's labels, but for the node; "" where one does not apply.
func (id *identity) values() map[string]string {
	values := map[string]string{
		metric.LabelGPU: strconv.Itoa(id.gpu), metric.LabelGPUUUID: id.uuid, metric.LabelModel: id.model, metric.LabelPCIBusID: id.pciBusID,
		metric.LabelMIG: strconv.FormatBool(id.mig), metric.LabelDriverVersion: id.driverVersion,
		metric.LabelNamespace: id.allocation.Namespace, metric.LabelPod: id.allocation.Pod, metric.LabelContainer: id.allocation.Container,
	}
	if id.kind == Instance {
		values[metric.LabelGPUInstanceID], values[metric.LabelProfile], values[metric.LabelInstanceUUID] = strconv.Itoa(id.instanceID), id.profile, id.instanceUUID
		if id.start >= 0 {
			values[metric.LabelStart] = strconv.Itoa(id.start)
		}
		if id.size > 0 {
			values[metric.LabelSize] = strconv.Itoa(id.size)
		}
	}
	return values
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

// appendEscaped escapes as the text format wants it. Bytes that are not UTF-8 become U+FFFD: a
// driver's broken string must not cost the whole scrape.
func appendEscaped(b []byte, text string, how *strings.Replacer) []byte {
	return append(b, how.Replace(strings.ToValidUTF8(text, "\uFFFD"))...)
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
	dcgm  []*labelSet
	usage Usage // of a subject in allocations
	// allocations has one subject for each container the entity is allocated
	// to.
	allocations []subject
	device      int           // index in Moment.subjects of the entity's GPU
	split       bool          // a GPU with instances on it
	busy        Measured      // 0 … 1
	tally       *tally        // running totals; not of a subject in allocations
	idle        time.Duration // allocated and not computing; of what Moment.idling yields
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
