package observe

import (
	"cmp"
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// element is one element of a PromQL answer, with the labels that are read.
type element struct {
	node, namespace, pod   string
	gpu, uuid, model, mig  string
	instance, instanceUUID string
	profile, start         string
	value                  float64
}

// Prometheus renames the exporter's labels to these when the scrape target has a label of the same
// name. The exporter's value wins.
const (
	exportedNode      = metric.Exported + metric.LabelNode
	exportedNamespace = metric.Exported + metric.LabelNamespace
	exportedPod       = metric.Exported + metric.LabelPod
)

func newElement(s prom.Sample) *element {
	get := s.Labels.Get
	return &element{
		node:      cmp.Or(get(exportedNode), get(metric.LabelNode)),
		namespace: cmp.Or(get(exportedNamespace), get(metric.LabelNamespace)),
		pod:       cmp.Or(get(exportedPod), get(metric.LabelPod)),
		gpu:       get(metric.LabelGPU), uuid: get(metric.LabelGPUUUID), model: get(metric.LabelModel), mig: get(metric.LabelMIG),
		instance: get(metric.LabelGPUInstanceID), instanceUUID: get(metric.LabelInstanceUUID),
		profile: get(metric.LabelProfile), start: get(metric.LabelStart),
		value: s.Value,
	}
}

// number returns the value if it is finite.
func (s *element) number() (float64, bool) { return sample.Known(s.value, 0).Get() }

// intake builds Readings from series: one metric family after the other, in the
// order of its methods.
//
// Two targets may report the same GPU: an exporter's old pod and its new one, two jobs, or an exporter
// that claims another's node. Where they disagree the value is unknown, whatever the order.
type intake struct{ readings *Readings }

func newIntake(taken time.Time) *intake {
	return &intake{&Readings{Taken: taken, nodes: map[string]*nodeReading{}}}
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
		uuid, model, mig := s.uuid, s.model, s.mig == "true"
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
	i := c.instance(s.instance)
	profile, uuid, start := s.profile, s.instanceUUID, -1
	if n, err := strconv.Atoi(s.start); err == nil {
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
	pod := s.of()
	in.at(s).allocated[pod]++
	if len(s.instance) > 0 {
		i := c.instance(s.instance)
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
		c.disputed = c.instance(s.instance).work.add(s) || c.disputed
	}
}

// sampleAge records the age of a known GPU's or instance's sample; others are ignored.
func (in *intake) sampleAge(s *element) {
	v, ok := s.number()
	index, err := strconv.Atoi(s.gpu)
	if !ok || err != nil {
		return
	}
	c := in.at(s).gpus[index]
	if c == nil {
		return
	}
	w := &c.work
	if len(s.instance) > 0 {
		i := c.instances[s.instance]
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
	if health == gpu.Sick {
		c.judges = append(c.judges, s.of())
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
	u := unused{pod: s.of(), since: in.readings.Taken.Add(-seconds(v))}
	if len(s.instance) > 0 {
		i := c.instance(s.instance)
		i.unused = i.unused.and(u)
		return
	}
	c.unused = c.unused.and(u)
}

// at returns the reading of a series' node.
func (in *intake) at(s *element) *nodeReading {
	n, ok := in.readings.nodes[s.node]
	if !ok {
		n = &nodeReading{taken: in.readings.Taken, gpus: map[int]*gpuReading{}, allocated: map[string]int{}}
		in.readings.nodes[s.node] = n
	}
	return n
}

// device returns the reading of a series' GPU, nil without a valid index.
func (in *intake) device(s *element) *gpuReading {
	index, err := strconv.Atoi(s.gpu)
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

// of returns the pod of a series, "namespace/name".
func (s *element) of() string { return s.namespace + "/" + s.pod }

func seconds(v float64) time.Duration {
	const most = 1e9 // 30 years; a time.Duration overflows beyond
	return time.Duration(min(max(v, 0), most) * float64(time.Second))
}
