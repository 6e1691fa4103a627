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

// Prometheus renames the exporter's labels to these when the scrape target has a label of the same
// name. The exporter's value wins.
const (
	exportedNode      = metric.Exported + metric.LabelNode
	exportedNamespace = metric.Exported + metric.LabelNamespace
	exportedPod       = metric.Exported + metric.LabelPod
	exportedContainer = metric.Exported + metric.LabelContainer
)

// labelOf returns the value of a label that the target may have too.
func labelOf(s *prom.Sample, exported, label string) string {
	return cmp.Or(s.Labels.Get(exported), s.Labels.Get(label))
}

func nodeOf(s *prom.Sample) string { return labelOf(s, exportedNode, metric.LabelNode) }

// podOf returns the pod of a series, "namespace/name".
func podOf(s *prom.Sample) string {
	return labelOf(s, exportedNamespace, metric.LabelNamespace) + "/" + labelOf(s, exportedPod, metric.LabelPod)
}

func instanceOf(s *prom.Sample) string { return s.Labels.Get(metric.LabelGPUInstanceID) }

// number returns the value if it is finite.
func number(s *prom.Sample) (float64, bool) { return sample.Known(s.Value, 0).Get() }

// intake builds Readings from series: one metric family after the other, in the
// order of its methods.
//
// Two targets may report the same GPU: an exporter's old pod and its new one, two jobs, or an exporter
// that claims another's node. Where they disagree the value is unknown, whatever the order; where they
// agree it counts once.
type intake struct{ readings *Readings }

func newIntake(taken time.Time) *intake {
	return &intake{&Readings{Taken: taken, nodes: map[string]*nodeReading{}}}
}

func (in *intake) age(s *prom.Sample) {
	if v, ok := number(s); ok {
		n := in.at(s)
		n.age = max(n.age, seconds(v)) // where two exporters claim a node, the older age holds
		n.aged = true
	}
}

func (in *intake) info(s *prom.Sample) {
	if c := in.device(s); c != nil {
		uuid, model, mig := s.Labels.Get(metric.LabelGPUUUID), s.Labels.Get(metric.LabelModel), s.Labels.Get(metric.LabelMIG) == "true"
		if c.listed && (c.uuid != uuid || c.model != model || c.mig != mig) {
			c.disputed, c.ambiguous = true, true
		}
		c.listed = true
		c.uuid, c.model, c.mig = uuid, model, mig
	}
}

func (in *intake) instanceInfo(s *prom.Sample) {
	c := in.device(s)
	if c == nil {
		return
	}
	i := c.instance(instanceOf(s))
	profile, uuid, start := s.Labels.Get(metric.LabelProfile), s.Labels.Get(metric.LabelInstanceUUID), -1
	if n, err := strconv.Atoi(s.Labels.Get(metric.LabelStart)); err == nil {
		start = n
	}
	if i.listed && (i.profile != profile || i.uuid != uuid || i.start != start) {
		c.disputed, c.ambiguous = true, true
	}
	i.listed = true
	i.profile, i.uuid, i.start = profile, uuid, start
}

func (in *intake) allocated(s *prom.Sample) {
	c := in.device(s)
	if c == nil || s.Value == 0 {
		return
	}
	to := &c.allocations
	if id := instanceOf(s); id != "" {
		to = &c.instance(id).allocations
	}
	pod := podOf(s)
	if to.add(pod, labelOf(s, exportedContainer, metric.LabelContainer)) {
		in.at(s).allocated[pod]++
	}
}

// allocations are the containers that a device is allocated to: their pods and names.
type allocations struct{ allocatedTo, containers []string }

// add returns false for a container that is known.
func (a *allocations) add(pod, container string) bool {
	for i := range a.allocatedTo {
		if a.allocatedTo[i] == pod && a.containers[i] == container {
			return false
		}
	}
	a.allocatedTo, a.containers = append(a.allocatedTo, pod), append(a.containers, container)
	return true
}

// busy records the busy ratio of a GPU or an instance. Its age arrives later.
func (in *intake) busy(s *prom.Sample) {
	c := in.device(s)
	if c == nil {
		return
	}
	w := &c.work
	if id := instanceOf(s); id != "" {
		w = &c.instance(id).work
	}
	c.disputed = w.add(s) || c.disputed
}

// sampleAge records the age of a known GPU's or instance's sample; others are ignored.
func (in *intake) sampleAge(s *prom.Sample) {
	v, ok := number(s)
	index, err := strconv.Atoi(s.Labels.Get(metric.LabelGPU))
	if !ok || err != nil {
		return
	}
	c := in.at(s).gpus[index]
	if c == nil {
		return
	}
	w := &c.work
	if id := instanceOf(s); id != "" {
		i := c.instances[id]
		if i == nil {
			return
		}
		w = &i.work
	}
	w.age, w.aged = max(w.age, seconds(v)), true // the older age holds
}

// add records a busy ratio. It returns true if another one is recorded: then the ratio is unknown.
func (w *work) add(s *prom.Sample) (disputed bool) {
	v, ok := number(s)
	if !ok {
		return false
	}
	w.disputed = w.disputed || w.known && w.ratio != v
	w.ratio, w.known = v, true
	return w.disputed
}

func (in *intake) healthy(s *prom.Sample) {
	c := in.device(s)
	if c == nil {
		return
	}
	var health gpu.Health
	switch s.Value {
	case 0:
		health = gpu.Sick
	case 1:
		health = gpu.Healthy
	default:
		return
	}
	if health == gpu.Sick {
		c.judges = append(c.judges, podOf(s))
	}
	if c.judged && c.health != health { // never sick: a node that others say is healthy is not replaced
		c.disputed, c.health = true, gpu.HealthUnknown
		return
	}
	c.judged, c.health = true, health
}

// idle records since when an allocated device has not computed.
func (in *intake) idle(s *prom.Sample) {
	c := in.device(s)
	v, ok := number(s)
	if c == nil || !ok || v <= 0 {
		return
	}
	u := unused{pod: podOf(s), since: in.readings.Taken.Add(-seconds(v))}
	if id := instanceOf(s); id != "" {
		i := c.instance(id)
		i.unused = i.unused.and(u)
		return
	}
	c.unused = c.unused.and(u)
}

// at returns the reading of a series' node.
func (in *intake) at(s *prom.Sample) *nodeReading {
	name := nodeOf(s)
	n, ok := in.readings.nodes[name]
	if !ok {
		n = &nodeReading{taken: in.readings.Taken, gpus: map[int]*gpuReading{}, allocated: map[string]int{}}
		in.readings.nodes[name] = n
	}
	return n
}

// device returns the reading of a series' GPU, nil without a valid index.
func (in *intake) device(s *prom.Sample) *gpuReading {
	index, err := strconv.Atoi(s.Labels.Get(metric.LabelGPU))
	if err != nil || index < 0 || nodeOf(s) == "" {
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

func seconds(v float64) time.Duration {
	const most = 1e9 // 30 years; a time.Duration overflows beyond
	return time.Duration(min(max(v, 0), most) * float64(time.Second))
}
