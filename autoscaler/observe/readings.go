package observe

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Readings are what the exporters said, through Prometheus. They are immutable
// once taken. The nil Readings know nothing.
type Readings struct {
	// Taken is when Prometheus was asked, on our clock.
	Taken time.Time
	nodes map[string]*nodeReading
}

// nodeReading is what one node's exporter said.
type nodeReading struct {
	age   time.Duration // of the holder map at Taken, scrape included
	aged  bool          // age is known
	taken time.Time     // as the Readings'
	cards map[int]*cardReading
	// held counts devices by holder, "namespace/pod".
	held map[string]int
}

type cardReading struct {
	listed    bool // gpu_info or gpu_instance_info knows the card
	uuid      string
	model     string
	mig       bool
	holders   []string
	work      work
	unused    unused
	health    gpu.Health
	instances map[string]*instanceReading // by GPU instance id; nil for none
}

type instanceReading struct {
	listed  bool
	profile string
	start   int // first memory slice, -1 where it is not known
	uuid    string
	holders []string
	work    work
	unused  unused
}

// work is how busy something is, and how old that is.
type work struct {
	ratio       float64
	age         time.Duration
	known, aged bool // ratio, age
}

// busy is unknown where either is.
func (w work) busy() sample.Value {
	if !w.known || !w.aged {
		return sample.Unknown()
	}
	return sample.Known(w.ratio, w.age)
}

// node returns what is known of a node at now, nil when that is nothing or too
// old to count.
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

// oldest is the greatest age, when they were taken, of what the nodes said that can
// still be believed.
func (r *Readings) oldest(maxAge time.Duration) time.Duration {
	var age time.Duration
	for _, n := range r.nodes {
		if n.aged && n.age <= maxAge {
			age = max(age, n.age)
		}
	}
	return age
}

// Answers are the vectors that Readings are made of.
type Answers struct {
	Info, InstanceInfo, Held, Age          prom.Vector
	Busy, InstanceBusy, SampleAge, Healthy prom.Vector
	// Idle is how long before Taken what is held has last computed, in seconds;
	// what computes is not in it.
	Idle prom.Vector
}

// NewReadings puts answers together that are there as a whole; Read does so as they
// arrive. Series without the labels that say what they are about are passed over.
func NewReadings(taken time.Time, a Answers) *Readings {
	in := newIntake(taken)
	for _, each := range []struct {
		take   func(*element)
		vector prom.Vector
	}{
		{in.age, a.Age}, {in.info, a.Info}, {in.instanceInfo, a.InstanceInfo}, {in.held, a.Held}, {in.busy, a.Busy},
		{in.instanceBusy, a.InstanceBusy}, {in.sampleAge, a.SampleAge}, {in.healthy, a.Healthy}, {in.idle, a.Idle},
	} {
		for _, s := range each.vector {
			var labels [][2][]byte
			for name, value := range s.Labels.All() {
				labels = append(labels, [2][]byte{[]byte(name), []byte(value)})
			}
			each.take(newElement(labels, s.Value))
		}
	}
	return in.readings
}
