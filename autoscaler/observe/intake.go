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

// The methods below add series to Readings: one metric family after the other, in their order.
//
// Two targets may report the same GPU: an exporter's old pod and its new one, two jobs, or an exporter
// that claims another's node. Where they disagree the value is unknown, whatever the order; where they
// agree it counts once.

func newReadings(taken time.Time) *Readings {
	return &Readings{Taken: taken, nodes: map[string]*nodeReading{}}
}

func (r *Readings) age(s *prom.Sample) {
	if v, ok := number(s); ok {
		n := r.at(s)
		n.age = max(n.age, seconds(v)) // where two exporters claim a node, the older age holds
		n.aged = true
	}
}

func (r *Readings) info(s *prom.Sample) {
	if c := r.gpu(s); c != nil {
		c.info.add(gpuInfo{s.Labels.Get(metric.LabelGPUUUID), s.Labels.Get(metric.LabelModel), s.Labels.Get(metric.LabelMIG) == "true"})
	}
}

func (r *Readings) instanceInfo(s *prom.Sample) {
	if c := r.gpu(s); c != nil {
		start := -1
		if n, err := strconv.Atoi(s.Labels.Get(metric.LabelStart)); err == nil {
			start = n
		}
		c.instance(instanceOf(s)).info.add(instanceInfo{s.Labels.Get(metric.LabelProfile), s.Labels.Get(metric.LabelInstanceUUID), start})
	}
}

func (r *Readings) allocated(s *prom.Sample) {
	d := r.device(s)
	if d == nil || s.Value == 0 {
		return
	}
	pod, container := podOf(s), labelOf(s, exportedContainer, metric.LabelContainer)
	for i := range d.allocatedTo {
		if d.allocatedTo[i] == pod && d.containers[i] == container {
			return
		}
	}
	d.allocatedTo, d.containers = append(d.allocatedTo, pod), append(d.containers, container)
	r.at(s).allocated[pod]++
}

// busy records the busy ratio of a GPU or an instance. Its age arrives later.
func (r *Readings) busy(s *prom.Sample) {
	if d := r.device(s); d != nil {
		if v, ok := number(s); ok {
			d.busy.add(v)
		}
	}
}

// sampleAge records the age of a known GPU's or instance's sample; others are ignored.
func (r *Readings) sampleAge(s *prom.Sample) {
	v, ok := number(s)
	index, err := strconv.Atoi(s.Labels.Get(metric.LabelGPU))
	c := r.at(s).gpus[index]
	if !ok || err != nil || c == nil {
		return
	}
	d := &c.deviceReading
	if id := instanceOf(s); id != "" {
		i := c.instances[id]
		if i == nil {
			return
		}
		d = &i.deviceReading
	}
	d.age, d.aged = max(d.age, seconds(v)), true // the older age holds
}

// healthy records a verdict. Where targets disagree a GPU is never sick: a node that others say is healthy is not
// replaced.
func (r *Readings) healthy(s *prom.Sample) {
	c := r.gpu(s)
	switch {
	case c == nil:
	case s.Value == 0:
		c.health.add(gpu.Sick)
		c.judges = append(c.judges, podOf(s))
	case s.Value == 1:
		c.health.add(gpu.Healthy)
	}
}

// idle records since when an allocated device has not computed.
func (r *Readings) idle(s *prom.Sample) {
	d := r.device(s)
	if v, ok := number(s); d != nil && ok && v > 0 {
		d.idlePod.add(podOf(s))
		if since := r.Taken.Add(-seconds(v)); since.After(d.idleSince) { // of two times of one pod the shorter holds
			d.idleSince = since
		}
	}
}

// at returns the reading of a series' node.
func (r *Readings) at(s *prom.Sample) *nodeReading {
	name := nodeOf(s)
	n, ok := r.nodes[name]
	if !ok {
		n = &nodeReading{taken: r.Taken, gpus: map[int]*gpuReading{}, allocated: map[string]int{}}
		r.nodes[name] = n
	}
	return n
}

// device returns the reading of a series' GPU, or of its MIG device; nil without a valid index.
func (r *Readings) device(s *prom.Sample) *deviceReading {
	c := r.gpu(s)
	if c == nil {
		return nil
	}
	if id := instanceOf(s); id != "" {
		return &c.instance(id).deviceReading
	}
	return &c.deviceReading
}

// gpu returns the reading of a series' GPU, nil without a valid index.
func (r *Readings) gpu(s *prom.Sample) *gpuReading {
	index, err := strconv.Atoi(s.Labels.Get(metric.LabelGPU))
	if err != nil || index < 0 || nodeOf(s) == "" {
		return nil
	}
	n := r.at(s)
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
		i = &instanceReading{}
		c.instances[id] = i
	}
	return i
}

func seconds(v float64) time.Duration {
	const most = 1e9 // 30 years; a time.Duration overflows beyond
	return time.Duration(min(max(v, 0), most) * float64(time.Second))
}
