package observe

import (
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
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
	busy      sample.Value
	unused    unused
	health    gpu.Health
	instances map[string]*instanceReading // by GPU instance id
}

type instanceReading struct {
	listed  bool
	profile string
	start   int // first memory slice, -1 where it is not known
	uuid    string
	holders []string
	busy    sample.Value
	unused  unused
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

// NewReadings puts the answers together. Series without the labels that say
// what they are about are passed over.
func NewReadings(taken time.Time, a Answers) *Readings {
	r := &Readings{Taken: taken, nodes: map[string]*nodeReading{}}
	for _, s := range a.Age {
		if v, ok := sample.Known(s.Value, 0).Get(); ok {
			n := r.at(s.Labels)
			n.age = max(n.age, seconds(v)) // of two that claim a node, believe the older
			n.aged = true
		}
	}
	r.each(a.Info, func(s prom.Sample, c *cardReading) {
		c.listed = true
		c.uuid, c.model, c.mig = s.Labels.Get(metric.LabelGPUUUID), s.Labels.Get(metric.LabelModel), s.Labels.Get(metric.LabelMIG) == "true"
	})
	r.each(a.InstanceInfo, func(s prom.Sample, c *cardReading) {
		i := c.instance(s.Labels.Get(metric.LabelGPUInstanceID))
		i.listed = true
		i.profile, i.uuid, i.start = s.Labels.Get(metric.LabelProfile), s.Labels.Get(metric.LabelInstanceUUID), -1
		if start, err := strconv.Atoi(s.Labels.Get(metric.LabelStart)); err == nil {
			i.start = start
		}
	})
	r.holders(a.Held)
	r.values(a)
	r.idle(a.Idle)
	return r
}

func (r *Readings) holders(held prom.Vector) {
	for _, s := range held {
		c := r.card(s.Labels)
		if c == nil || s.Value == 0 {
			continue
		}
		holder := holderOf(s.Labels)
		r.at(s.Labels).held[holder]++
		if id := s.Labels.Get(metric.LabelGPUInstanceID); id != "" {
			i := c.instance(id)
			i.holders = append(i.holders, holder)
			continue
		}
		c.holders = append(c.holders, holder)
	}
}

func (r *Readings) values(a Answers) {
	ages := make(map[entityKey]time.Duration, len(a.SampleAge))
	for _, s := range a.SampleAge {
		if v, ok := sample.Known(s.Value, 0).Get(); ok {
			ages[entity(s.Labels)] = seconds(v)
		}
	}
	busy := func(s prom.Sample) sample.Value {
		age, ok := ages[entity(s.Labels)]
		if !ok {
			return sample.Unknown()
		}
		return sample.Known(s.Value, age)
	}
	r.each(a.Busy, func(s prom.Sample, c *cardReading) { c.busy = busy(s) })
	r.each(a.InstanceBusy, func(s prom.Sample, c *cardReading) {
		c.instance(s.Labels.Get(metric.LabelGPUInstanceID)).busy = busy(s)
	})
	r.each(a.Healthy, func(s prom.Sample, c *cardReading) {
		switch {
		case s.Value == 0:
			c.health = gpu.Sick
		case s.Value == 1 && c.health == gpu.HealthUnknown:
			c.health = gpu.Healthy
		}
	})
}

// idle notes since when what is held has not been used.
func (r *Readings) idle(idle prom.Vector) {
	r.each(idle, func(s prom.Sample, c *cardReading) {
		v, ok := sample.Known(s.Value, 0).Get()
		if !ok || v <= 0 {
			return
		}
		u := unused{holder: holderOf(s.Labels), since: r.Taken.Add(-seconds(v))}
		if id := s.Labels.Get(metric.LabelGPUInstanceID); id != "" {
			c.instance(id).unused = u
			return
		}
		c.unused = u
	})
}

func (r *Readings) each(v prom.Vector, do func(prom.Sample, *cardReading)) {
	for _, s := range v {
		if c := r.card(s.Labels); c != nil {
			do(s, c)
		}
	}
}

// at returns the node a series is about.
func (r *Readings) at(ls prom.Labels) *nodeReading {
	name := own(ls, metric.LabelNode)
	n, ok := r.nodes[name]
	if !ok {
		n = &nodeReading{taken: r.Taken, cards: map[int]*cardReading{}, held: map[string]int{}}
		r.nodes[name] = n
	}
	return n
}

// card returns the card a series is about, nil where it does not say.
func (r *Readings) card(ls prom.Labels) *cardReading {
	index, err := strconv.Atoi(ls.Get(metric.LabelGPU))
	if err != nil || index < 0 || own(ls, metric.LabelNode) == "" {
		return nil
	}
	n := r.at(ls)
	c, ok := n.cards[index]
	if !ok {
		c = &cardReading{instances: map[string]*instanceReading{}}
		n.cards[index] = c
	}
	return c
}

func (c *cardReading) instance(id string) *instanceReading {
	i, ok := c.instances[id]
	if !ok {
		i = &instanceReading{start: -1}
		c.instances[id] = i
	}
	return i
}

// holderOf is the pod a series is about, "namespace/name".
func holderOf(ls prom.Labels) string {
	return own(ls, metric.LabelNamespace) + "/" + own(ls, metric.LabelPod)
}

// own returns the exporter's own label, which Prometheus moves aside as
// exported_… when the scrape target has one of that name too.
func own(ls prom.Labels, name string) string {
	if v := ls.Get(movedAside[name]); v != "" {
		return v
	}
	return ls.Get(name)
}

// movedAside are the names that own is asked for, as Prometheus writes them then.
var movedAside = map[string]string{
	metric.LabelNode: metric.Exported + metric.LabelNode, metric.LabelNamespace: metric.Exported + metric.LabelNamespace, metric.LabelPod: metric.Exported + metric.LabelPod,
}

// entityKey is a card, or an instance of one.
type entityKey struct{ node, gpu, instance string }

func entity(ls prom.Labels) entityKey {
	return entityKey{own(ls, metric.LabelNode), ls.Get(metric.LabelGPU), ls.Get(metric.LabelGPUInstanceID)}
}

func seconds(v float64) time.Duration {
	const most = 1e9 // 30 years; more would overflow
	return time.Duration(min(max(v, 0), most) * float64(time.Second))
}
