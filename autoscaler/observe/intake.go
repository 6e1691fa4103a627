package observe

import (
	"bytes"
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/sample"
)

// element is one of an answer, by the labels that are asked for. They hold only
// until the next one is read.
type element struct {
	node, namespace, pod      []byte
	gpu, uuid, model, mig     []byte
	instance, instanceUUID    []byte
	profile, start            []byte
	value                     float64
	ownNode, ownSpace, ownPod bool
}

// Labels that Prometheus moves aside when the scrape target has one of that name too:
// the exporter's own word counts.
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

// read takes over labels and value; the same element is used for one after another.
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

// number is the value of one that is finite.
func (s *element) number() (float64, bool) { return sample.Known(s.value, 0).Get() }

// intake makes Readings of series as they arrive: all of one family, then all of the
// next, in the order of its methods. What is said again and again is kept once.
type intake struct {
	readings *Readings
	texts    map[string]string
	scratch  []byte
	near     *nodeReading // of the series before, whose name is
	nearName []byte
}

func newIntake(taken time.Time) *intake {
	return &intake{readings: &Readings{Taken: taken, nodes: map[string]*nodeReading{}}, texts: map[string]string{}}
}

func (in *intake) age(s *element) {
	if v, ok := s.number(); ok {
		n := in.at(s)
		n.age = max(n.age, seconds(v)) // of two that claim a node, believe the older
		n.aged = true
	}
}

func (in *intake) info(s *element) {
	if c := in.card(s); c != nil {
		c.listed = true
		c.uuid, c.model, c.mig = string(s.uuid), in.text(s.model), string(s.mig) == "true"
	}
}

func (in *intake) instanceInfo(s *element) {
	c := in.card(s)
	if c == nil {
		return
	}
	i := c.instance(in.text(s.instance))
	i.listed = true
	i.profile, i.uuid, i.start = in.text(s.profile), string(s.instanceUUID), -1
	if start, err := strconv.Atoi(string(s.start)); err == nil {
		i.start = start
	}
}

func (in *intake) held(s *element) {
	c := in.card(s)
	if c == nil || s.value == 0 {
		return
	}
	holder := in.holder(s)
	in.at(s).held[holder]++
	if len(s.instance) > 0 {
		i := c.instance(in.text(s.instance))
		i.holders = append(i.holders, holder)
		return
	}
	c.holders = append(c.holders, holder)
}

// busy is of a card. How old it is comes later.
func (in *intake) busy(s *element) {
	if c := in.card(s); c != nil {
		c.work.ratio, c.work.known = s.value, true
	}
}

func (in *intake) instanceBusy(s *element) {
	if c := in.card(s); c != nil {
		i := c.instance(in.text(s.instance))
		i.work.ratio, i.work.known = s.value, true
	}
}

// sampleAge says how old what is known of a card or an instance is; of others it says
// nothing.
func (in *intake) sampleAge(s *element) {
	v, ok := s.number()
	index, err := strconv.Atoi(string(s.gpu))
	if !ok || err != nil {
		return
	}
	c := in.at(s).cards[index]
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
	w.age, w.aged = seconds(v), true
}

func (in *intake) healthy(s *element) {
	c := in.card(s)
	switch {
	case c == nil:
	case s.value == 0:
		c.health = gpu.Sick
	case s.value == 1 && c.health == gpu.HealthUnknown:
		c.health = gpu.Healthy
	}
}

// idle notes since when what is held has not been used.
func (in *intake) idle(s *element) {
	c := in.card(s)
	v, ok := s.number()
	if c == nil || !ok || v <= 0 {
		return
	}
	u := unused{holder: in.holder(s), since: in.readings.Taken.Add(-seconds(v))}
	if len(s.instance) > 0 {
		c.instance(in.text(s.instance)).unused = u
		return
	}
	c.unused = u
}

// at returns the node a series is about.
func (in *intake) at(s *element) *nodeReading {
	if in.near != nil && bytes.Equal(in.nearName, s.node) {
		return in.near
	}
	n, ok := in.readings.nodes[string(s.node)]
	if !ok {
		n = &nodeReading{taken: in.readings.Taken, cards: map[int]*cardReading{}, held: map[string]int{}}
		in.readings.nodes[string(s.node)] = n
	}
	in.near, in.nearName = n, append(in.nearName[:0], s.node...)
	return n
}

// card returns the card a series is about, nil where it does not say.
func (in *intake) card(s *element) *cardReading {
	index, err := strconv.Atoi(string(s.gpu))
	if err != nil || index < 0 || len(s.node) == 0 {
		return nil
	}
	n := in.at(s)
	c, ok := n.cards[index]
	if !ok {
		c = &cardReading{}
		n.cards[index] = c
	}
	return c
}

func (c *cardReading) instance(id string) *instanceReading {
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

// holder is the pod a series is about, "namespace/name".
func (in *intake) holder(s *element) string {
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
	const most = 1e9 // 30 years; more would overflow
	return time.Duration(min(max(v, 0), most) * float64(time.Second))
}
