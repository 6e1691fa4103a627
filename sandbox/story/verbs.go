package story

import (
	"strconv"
	"strings"
	"time"
)

// verbs with key=value arguments.
func verbs() map[string]func(*Story, *args) {
	return map[string]func(*Story, *args){
		"pool":    (*Story).pool,
		"node":    (*Story).node,
		"replay":  func(s *Story, a *args) { s.Replayed = a.whole("nodes", -1) },
		"run":     func(s *Story, a *args) { s.workload(Run, a) },
		"serve":   func(s *Story, a *args) { s.workload(Serve, a) },
		"hpa":     (*Story).hpa,
		"traffic": (*Story).traffic,
		"fault":   (*Story).fault,
	}
}

func (s *Story) pool(a *args) {
	p := Pool{
		Name:           a.word("a name"),
		Product:        a.text("product"),
		Cards:          a.whole("cards", -1),
		Min:            a.whole("min", 0),
		Max:            a.whole("max", -1),
		Price:          a.number("price", 0),
		Boot:           a.duration("boot", 15*time.Second),
		Layout:         a.layout("layout"),
		IdleAfter:      a.duration("idle-after", 5*time.Second),
		ScaleDownAfter: a.duration("scale-down-after", 20*time.Second),
		BootFails:      a.whole("boot-fails", 0),
		CPU:            a.whole("cpu", 64),
		MemoryGiB:      a.whole("memory-gib", 512),
	}
	s.Pools = append(s.Pools, p)
}

func (s *Story) node(a *args) {
	s.Nodes = append(s.Nodes, Node{Name: a.word("a name"), Pool: a.text("pool"), Layout: a.layout("layout")})
}

func (s *Story) workload(kind Kind, a *args) {
	w := Workload{Kind: kind}
	w.Namespace, w.Name = a.object()
	w.Replicas = a.whole("replicas", 1)
	w.Ask, w.Count = a.text("ask"), a.whole("count", 1)
	w.Node, w.Pool = a.maybe("node"), a.maybe("pool")
	switch kind {
	case Run:
		w.Busy, w.MemoryGiB = a.number("busy", 0.5), a.number("memory-gib", 1)
	case Serve:
		w.Model, w.Load = a.text("model"), a.duration("load", 3*time.Second)
	}
	s.Workloads = append(s.Workloads, w)
}

func (s *Story) hpa(a *args) {
	var h HPA
	h.Namespace, h.Name = a.object()
	h.Min, h.Max = a.whole("min", 1), a.whole("max", -1)
	for _, one := range strings.Split(a.text("metrics"), ",") {
		name, target, _ := strings.Cut(one, ":")
		n, err := strconv.Atoi(target)
		if name == "" || err != nil || n < 1 {
			a.fail("metrics: %q is not name:target with a target of at least 1", one)
		}
		h.Metrics = append(h.Metrics, Metric{Name: name, Target: n})
	}
	h.Up, h.UpEvery = a.whole("up", 2), a.duration("up-every", 5*time.Second)
	h.DownAfter = a.duration("down-after", 30*time.Second)
	s.HPAs = append(s.HPAs, h)
}

func (s *Story) traffic(a *args) {
	if s.Traffic != nil {
		a.fail("a story has one traffic")
	}
	t := &Traffic{Speed: a.number("speed", 1), Seed: uint64(a.whole("seed", 1))}
	t.Namespace, t.Name = a.object()
	t.Base, t.Peak = a.number("base", 1.6), a.number("peak", 8.5)
	t.Length = a.duration("length", time.Hour)
	s.Traffic = t
}

func (s *Story) fault(a *args) {
	f := Fault{At: a.duration("at", 0), What: a.word("what happens"), Args: map[string]string{}}
	needs, known := FaultNames()[f.What]
	if !known {
		a.fail("unknown fault %q", f.What)
	}
	for _, key := range needs {
		f.Args[key] = a.text(key)
	}
	s.Faults = append(s.Faults, f)
}
