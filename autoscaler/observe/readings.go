package observe

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Readings are the exporters' samples, read through Prometheus. They are immutable. Nil Readings
// know nothing.
type Readings struct {
	// Taken is the time of the query, on our clock.
	Taken time.Time
	nodes map[string]*nodeReading
}

// nodeReading has the samples of one node's exporter.
type nodeReading struct {
	age   time.Duration // of the attribution at Taken, scrape included
	aged  bool          // age is known
	taken time.Time     // as the Readings'
	gpus  map[int]*gpuReading
	// allocated counts devices by pod, "namespace/pod".
	allocated map[string]int
}

type gpuReading struct {
	listed      bool // gpu_info or gpu_instance_info has the GPU
	disputed    bool // targets disagree on a value, which is unknown
	ambiguous   bool // targets disagree on which GPU or instances these are: all is unknown
	uuid        string
	model       string
	mig         bool
	allocatedTo []string
	work        work
	unused      unused
	health      gpu.Health
	judged      bool                        // gpu_healthy has the GPU
	judges      []string                    // the pods whose gpu_healthy is 0, "namespace/pod"
	instances   map[string]*instanceReading // by GPU instance id; nil for none
}

// usable reports whether it is known which GPU the values are about.
func (r *gpuReading) usable() bool { return r != nil && r.listed && !r.ambiguous }

type instanceReading struct {
	listed      bool
	profile     string
	start       int // first memory slice, -1 if unknown
	uuid        string
	allocatedTo []string
	work        work
	unused      unused
}

// work is a busy ratio and its age.
type work struct {
	ratio       float64
	age         time.Duration
	known, aged bool // ratio, age
	disputed    bool // targets disagree on the ratio
}

// busy is unknown unless ratio and age are known and undisputed.
func (w work) busy() sample.Value {
	if !w.known || !w.aged || w.disputed {
		return sample.Unknown()
	}
	return sample.Known(w.ratio, w.age)
}

// node returns the reading of a node, nil if there is none or it is older than maxAge at now.
func (r *Readings) node(name string, now time.Time, maxAge time.Duration) *nodeReading {
	if r == nil {
		return nil
	}
	n, ok := r.nodes[name]
	if !ok || !n.aged || n.age+max(0, now.Sub(r.Taken)) > maxAge {
		return nil
	}
	return n
}

// without returns how many nodes of the readings are not among these.
func (r *Readings) without(nodes []corev1.Node) int {
	if r == nil {
		return 0
	}
	unknown := len(r.nodes)
	for i := range nodes {
		if _, ok := r.nodes[nodes[i].Name]; ok {
			unknown--
		}
	}
	return unknown
}

// oldest returns the greatest age at Taken of the nodes' samples that are within maxAge.
func (r *Readings) oldest(maxAge time.Duration) time.Duration {
	var age time.Duration
	for _, n := range r.nodes {
		if n.aged && n.age <= maxAge {
			age = max(age, n.age)
		}
	}
	return age
}

// Answers are the vectors that Readings are built from.
type Answers struct {
	Info, InstanceInfo, Allocated, Age     prom.Vector
	Busy, InstanceBusy, SampleAge, Healthy prom.Vector
	// Idle has, in seconds before Taken, when an allocated device last computed; devices that
	// compute are left out.
	Idle prom.Vector
}

// NewReadings builds Readings from complete answers; Read asks for them. Series
// without the labels that identify their subject are skipped.
func NewReadings(taken time.Time, a Answers) *Readings {
	in := newIntake(taken)
	for _, each := range []struct {
		take   func(*prom.Sample)
		vector prom.Vector
	}{
		{in.age, a.Age}, {in.info, a.Info}, {in.instanceInfo, a.InstanceInfo}, {in.allocated, a.Allocated}, {in.busy, a.Busy},
		{in.instanceBusy, a.InstanceBusy}, {in.sampleAge, a.SampleAge}, {in.healthy, a.Healthy}, {in.idle, a.Idle},
	} {
		for i := range each.vector {
			each.take(&each.vector[i])
		}
	}
	return in.readings
}
