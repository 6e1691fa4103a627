package observe

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Readings are the exporters' samples, read through Prometheus. They are immutable. Nil Readings
// know nothing.
//
// Two targets may report the same GPU: an exporter's old pod and its new one, two jobs, or an exporter
// that claims another's node. Where they disagree the value is unknown, whatever the order; where they
// agree it counts once.
type Readings struct {
	// Taken is the time of the query, on our clock.
	Taken time.Time
	nodes map[string]*nodeReading
}

// nodeReading has the samples of one node's exporter.
type nodeReading struct {
	taken time.Time // as the Readings'
	age   oldest    // of the attribution
	gpus  map[int]*deviceReading
	// allocated counts devices by pod, "namespace/pod".
	allocated map[string]int
}

// deviceReading has the samples of a GPU, or of a MIG device.
type deviceReading struct {
	is          agreed[identity]
	users       []string // containers, "namespace/pod/name", and
	allocatedTo []string // their pods
	busy        agreed[float64]
	age         oldest         // of busy
	healthy     agreed[bool]   // where targets disagree the GPU is not sick: another node's exporter may report it
	judges      []string       // the pods whose gpu_healthy is 0, "namespace/pod"
	idlePod     agreed[string] // the pod that has not computed on it since idleSince
	idleSince   time.Time
	instances   map[string]*deviceReading // MIG devices of a GPU, by GPU instance id; nil for none
}

// identity of a GPU is its model and whether MIG is on, that of a MIG device its profile and first memory slice, -1 if
// that is unknown.
type identity struct {
	uuid, model, profile string
	mig                  bool
	start                int
}

// agreed is a value that every target must report alike: where they differ it is unknown.
type agreed[T comparable] struct {
	value           T
	known, disputed bool
}

func (t *agreed[T]) add(v T) {
	t.disputed = t.disputed || t.known && t.value != v
	t.value, t.known = v, true
}

func (t *agreed[T]) get() (T, bool) { return t.value, t.known && !t.disputed }

// oldest is the greatest age that targets report, at the time of the query. It includes the time since the scrape.
type oldest struct {
	age   time.Duration
	known bool
}

func (o *oldest) add(v float64) { o.age, o.known = max(o.age, seconds(v)), true }

// within reports whether the age, which is as of taken, is no more than most at now.
func (o oldest) within(most time.Duration, taken, now time.Time) bool {
	return o.known && o.age+max(0, now.Sub(taken)) <= most
}

func seconds(v float64) time.Duration {
	const most = 1e9 // 30 years; a time.Duration overflows beyond
	return time.Duration(min(max(v, 0), most) * float64(time.Second))
}

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

// podOf returns the pod of a series, "namespace/name".
func podOf(s *prom.Sample) string {
	return labelOf(s, exportedNamespace, metric.LabelNamespace) + "/" + labelOf(s, exportedPod, metric.LabelPod)
}

func newReadings(taken time.Time) *Readings {
	return &Readings{Taken: taken, nodes: map[string]*nodeReading{}}
}

// add records the samples of a family. Values that are not finite are skipped, except for allocations (GPUHeld): there
// every value but 0 is an allocation.
func (r *Readings) add(family string, vector prom.Vector) {
	for i := range vector {
		s := &vector[i]
		name := labelOf(s, exportedNode, metric.LabelNode)
		if _, finite := sample.Known(s.Value, 0).Get(); !finite && family != metric.GPUHeld.Name || name == "" {
			continue
		}
		n := r.nodes[name]
		if n == nil {
			n = &nodeReading{taken: r.Taken, gpus: map[int]*deviceReading{}, allocated: map[string]int{}}
			r.nodes[name] = n
		}
		if family == metric.GPUAttributionAgeSeconds.Name {
			n.age.add(s.Value)
		} else if d := n.device(s, family != metric.GPUSampleAgeSeconds.Name); d != nil {
			n.take(family, d, s)
		}
	}
}

// take records a sample of a device.
func (n *nodeReading) take(family string, d *deviceReading, s *prom.Sample) {
	switch family {
	case metric.GPUInfo.Name, metric.GPUInstanceInfo.Name:
		d.is.add(identityOf(s))
	case metric.GPUHeld.Name:
		pod := podOf(s)
		user := pod + "/" + labelOf(s, exportedContainer, metric.LabelContainer)
		if s.Value != 0 && !slices.Contains(d.users, user) {
			d.users, d.allocatedTo = append(d.users, user), append(d.allocatedTo, pod)
			n.allocated[pod]++
		}
	case metric.GPUBusyRatio.Name, metric.GPUInstanceBusyRatio.Name:
		d.busy.add(s.Value)
	case metric.GPUSampleAgeSeconds.Name:
		d.age.add(s.Value)
	case metric.GPUHealthy.Name:
		if s.Value == 0 {
			d.judges = append(d.judges, podOf(s))
		}
		if s.Value == 0 || s.Value == 1 {
			d.healthy.add(s.Value == 1)
		}
	case metric.GPUIdleSeconds.Name:
		if s.Value > 0 {
			d.idlePod.add(podOf(s))
			if since := n.taken.Add(-seconds(s.Value)); since.After(d.idleSince) { // of two idle times of one pod the shorter counts
				d.idleSince = since
			}
		}
	}
}

func identityOf(s *prom.Sample) identity {
	out := identity{model: s.Labels.Get(metric.LabelModel), mig: s.Labels.Get(metric.LabelMIG) == "true", profile: s.Labels.Get(metric.LabelProfile), start: -1}
	if out.uuid = s.Labels.Get(metric.LabelGPUUUID); s.Labels.Get(metric.LabelGPUInstanceID) != "" {
		out.uuid = s.Labels.Get(metric.LabelInstanceUUID)
	}
	if n, err := strconv.Atoi(s.Labels.Get(metric.LabelStart)); err == nil {
		out.start = n
	}
	return out
}

// device returns the reading of a sample's GPU or MIG device. It is nil without a valid index, and for an unknown
// device unless add is set.
func (n *nodeReading) device(s *prom.Sample, add bool) *deviceReading {
	index, err := strconv.Atoi(s.Labels.Get(metric.LabelGPU))
	if err != nil || index < 0 {
		return nil
	}
	d := n.gpus[index]
	if d == nil && add {
		d = &deviceReading{}
		n.gpus[index] = d
	}
	id := s.Labels.Get(metric.LabelGPUInstanceID)
	if id == "" || d == nil {
		return d
	}
	i := d.instances[id]
	if i == nil && add {
		if d.instances == nil {
			d.instances = map[string]*deviceReading{}
		}
		i = &deviceReading{}
		d.instances[id] = i
	}
	return i
}

// node returns the reading of a node, nil if there is none or it is older than maxAge at now.
func (r *Readings) node(name string, now time.Time, maxAge time.Duration) *nodeReading {
	if r == nil || r.nodes[name] == nil || !r.nodes[name].age.within(maxAge, r.Taken, now) {
		return nil
	}
	return r.nodes[name]
}

// without returns how many nodes of the readings are not among these.
func (r *Readings) without(nodes []corev1.Node) int {
	if r == nil {
		return 0
	}
	unknown := len(r.nodes)
	for i := range nodes {
		if r.nodes[nodes[i].Name] != nil {
			unknown--
		}
	}
	return unknown
}

// oldest returns the greatest age at Taken of the nodes' samples that are within maxAge.
func (r *Readings) oldest(maxAge time.Duration) time.Duration {
	var age time.Duration
	for _, n := range r.nodes {
		if n.age.within(maxAge, r.Taken, r.Taken) {
			age = max(age, n.age.age)
		}
	}
	return age
}

// usable reports whether it is known which GPU and MIG devices the values are about.
func (d *deviceReading) usable() bool {
	if d == nil || !d.is.known || d.is.disputed {
		return false
	}
	for _, i := range d.instances {
		if i.is.disputed {
			return false
		}
	}
	return true
}

// disputed reports whether targets disagree on any value.
func (d *deviceReading) disputed() bool {
	for _, i := range d.instances {
		if i.disputed() {
			return true
		}
	}
	return d.is.disputed || d.busy.disputed || d.healthy.disputed
}

// use returns a device's busy ratio, and since when the pod that the device is allocated to has not computed on it.
// That time is zero unless the device is allocated to one pod only and the sample is no older than maxAge.
func (d *deviceReading) use(taken, now time.Time, maxAge time.Duration) (busy sample.Value, unused time.Time) {
	ratio, known := d.busy.get()
	if !known || !d.age.known {
		return sample.Unknown(), time.Time{}
	}
	pod, known := d.idlePod.get()
	if known && slices.Equal(d.allocatedTo, []string{pod}) && d.age.within(maxAge, taken, now) {
		unused = d.idleSince
	}
	return sample.Known(ratio, d.age.age), unused
}
