package observe

import (
	"bytes"
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/sample"
)

// element is one element of a PromQL answer, with the labels that are read. It is valid until the
// next one is read.
type element struct {
	node, namespace, pod      []byte
	gpu, uuid, model, mig     []byte
	instance, instanceUUID    []byte
	profile, start            []byte
	value                     float64
	ownNode, ownSpace, ownPod bool
}

// Prometheus renames the exporter's labels to these when the scrape target has a label of the same
// name. The exporter's value wins.
const (
	exportedNode      = metric.Exported + metric.LabelNode
	exportedNamespace = metric.Exported + metric.LabelNamespace
	exportedPod       = metric.Exported + metric.LabelPod
)

func newElement(labels [][2][]byte, value float64) *element {
	s := &element{}
	s.read(labels, value)
	return s
}

// read replaces the element's labels and value; one element is reused for all.
func (s *element) read(labels [][2][]byte, value float64) {
	*s = element{value: value}
	for i := range labels {
		v := labels[i][1]
		if len(v) == 0 {
			continue
		}
		switch string(labels[i][0]) {
		case exportedNode:
			s.node, s.ownNode = v, true
		case exportedNamespace:
			s.namespace, s.ownSpace = v, true
		case exportedPod:
			s.pod, s.ownPod = v, true
		case metric.LabelNode:
			unless(s.ownNode, &s.node, v)
		case metric.LabelNamespace:
			unless(s.ownSpace, &s.namespace, v)
		case metric.LabelPod:
			unless(s.ownPod, &s.pod, v)
		case metric.LabelGPU:
			s.gpu = v
		case metric.LabelGPUUUID:
			s.uuid = v
		case metric.LabelModel:
			s.model = v
		case metric.LabelMIG:
			s.mig = v
		case metric.LabelGPUInstanceID:
			s.instance = v
		case metric.LabelInstanceUUID:
			s.instanceUUID = v
		case metric.LabelProfile:
			s.profile = v
		case metric.LabelStart:
			s.start = v
		}
	}
}

func unless(own bool, to *[]byte, v []byte) {
	if !own {
		*to = v
	}
}

// number returns the value if it is finite.
func (s *element) number() (float64, bool) { return sample.Known(s.value, 0).Get() }

// intake builds Readings from series as they arrive: one metric family after the other, in the
// order of its methods. Repeated texts are interned.
//
// Two targets may report the same GPU: an exporter's old pod and its new one, two jobs, or an exporter
// that claims another's node. Where they disagree the value is unknown, whatever the order.
type intake struct {
	readings *Readings
	texts    map[string]string
	scratch  []byte
	near     *nodeReading // of the previous series, whose node is nearName
	nearName []byte
}

func newIntake(taken time.Time) *intake {
	return &intake{readings: &Readings{Taken: taken, nodes: map[string]*nodeReading{}}, texts: map[string]string{}}
}

func (in *intake) age(s *element) {
	if v, ok := s.number(); ok {
		n := in.at(s)
		n.age = max(n.age, seconds(v)) // where two exporters claim a node, the older age holds
		n.aged = true
	}
}

func (in *intake) info(s *element) {
	if c := in.device(s); c != nil {
		uuid, model, mig := string(s.uuid), in.text(s.model), string(s.mig) == "true"
		if c.listed && (c.uuid != uuid || c.model != model || c.mig != mig) {
			c.disputed, c.ambiguous = true, true
		}
		c.listed = true
		c.uuid, c.model, c.mig = uuid, model, mig
	}
}

func (in *intake) instanceInfo(s *element) {
	c := in.device(s)
	if c == nil {
		return
	}
	i := c.instance(in.text(s.instance))
	profile, uuid, start := in.text(s.profile), string(s.instanceUUID), -1
	if n, err := strconv.Atoi(string(s.start)); err == nil {
		start = n
	}
	if i.listed && (i.profile != profile || i.uuid != uuid || i.start != start) {
		c.disputed, c.ambiguous = true, true
	}
	i.listed = true
	i.profile, i.uuid, i.start = profile, uuid, start
}

func (in *intake) allocated(s *element) {
	c := in.device(s)
	if c == nil || s.value == 0 {
		return
	}
	pod := in.pod(s)
	in.at(s).allocated[pod]++
	if len(s.instance) > 0 {
		i := c.instance(in.text(s.instance))
		i.allocatedTo = append(i.allocatedTo, pod)
		return
	}
	c.allocatedTo = append(c.allocatedTo, pod)
}

// busy records a GPU's busy ratio. Its age arrives later.
func (in *intake) busy(s *element) {
	if c := in.device(s); c != nil {
		c.disputed = c.work.add(s) || c.disputed
	}
}

func (in *intake) instanceBusy(s *element) {
	if c := in.device(s); c != nil {
		c.disputed = c.instance(in.text(s.instance)).work.add(s) || c.disputed
	}
}

// sampleAge records the age of a known GPU's or instance's sample; others are ignored.
func (in *intake) sampleAge(s *element) {
	v, ok := s.number()
	index, err := strconv.Atoi(string(s.gpu))
	if !ok || err != nil {
		return
	}
	c := in.at(s).gpus[index]
	if c == nil {
		return
	}
	w := &c.work
	if len(s.instance) > 0 {
		i := c.instances[string(s.instance)]
		if i == nil {
			return
		}
		w = &i.work
	}
	w.age, w.aged = max(w.age, seconds(v)), true // the older age holds
}

// add records a busy ratio. It returns true if another one is recorded: then the ratio is unknown.
func (w *work) add(s *element) (disputed bool) {
	v, ok := s.number()
	if !ok {
		return false
	}
	w.disputed = w.disputed || w.known && w.ratio != v
	w.ratio, w.known = v, true
	return w.disputed
}

func (in *intake) healthy(s *element) {
	c := in.device(s)
	if c == nil {
		return
	}
	var health gpu.Health
	switch s.value {
	case 0:
		health = gpu.Sick
	case 1:
		health = gpu.Healthy
	default:
		return
	}
	if c.judged && c.health != health { // never sick: a node that others say is healthy is not replaced
		c.disputed, c.health = true, gpu.HealthUnknown
		return
	}
	c.judged, c.health = true, health
}

// idle records since when an allocated device has not computed.
func (in *intake) idle(s *element) {
	c := in.device(s)
	v, ok := s.number()
	if c == nil || !ok || v <= 0 {
		return
	}
	u := unused{pod: in.pod(s), since: in.readings.Taken.Add(-seconds(v))}
	if len(s.instance) > 0 {
		i := c.instance(in.text(s.instance))
		i.unused = i.unused.and(u)
		return
	}
	c.unused = c.unused.and(u)
}

// at returns the reading of a series' node.
func (in *intake) at(s *element) *nodeReading {
	if in.near != nil && bytes.Equal(in.nearName, s.node) {
		return in.near
	}
	n, ok := in.readings.nodes[string(s.node)]
	if !ok {
		n = &nodeReading{taken: in.readings.Taken, gpus: map[int]*gpuReading{}, allocated: map[string]int{}}
		in.readings.nodes[string(s.node)] = n
	}
	in.near, in.nearName = n, append(in.nearName[:0], s.node...)
	return n
}

// device returns the reading of a series' GPU, nil without a valid index.
func (in *intake) device(s *element) *gpuReading {
	index, err := strconv.Atoi(string(s.gpu))
	if err != nil || index < 0 || len(s.node) == 0 {
		return nil
	}
	n := in.at(s)
	c, ok := n.gpus[index]
	if !ok {
		c = &gpuReading{}
		n.gpus[index] = c
	}
	return c
}

func (c *gpuReading) instance(id string) *instanceReading {
	i, ok := c.instances[id]
	if !ok {
		if c.instances == nil {
			c.instances = map[string]*instanceReading{}
		}
		i = &instanceReading{start: -1}
		c.instances[id] = i
	}
	return i
}

// pod returns the pod of a series, "namespace/name".
func (in *intake) pod(s *element) string {
	in.scratch = append(append(append(in.scratch[:0], s.namespace...), '/'), s.pod...)
	return in.text(in.scratch)
}

func (in *intake) text(raw []byte) string {
	if t, ok := in.texts[string(raw)]; ok {
		return t
	}
	t := string(raw)
	in.texts[t] = t
	return t
}

func seconds(v float64) time.Duration {
	const most = 1e9 // 30 years; a time.Duration overflows beyond
	return time.Duration(min(max(v, 0), most) * float64(time.Second))
}
