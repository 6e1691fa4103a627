package collect

import "time"

// staleAfter is the age, in intervals, at which a value vanishes: one missed
// pass is a hiccup, two are not.
const staleAfter = 2.5

// StaleAfter is the age at which a value taken every interval vanishes.
func StaleAfter(interval time.Duration) time.Duration {
	return time.Duration(staleAfter * float64(interval))
}

// Options of a Compiler.
type Options struct {
	// Node is the value of the node label.
	Node string
	// Interval between readings.
	Interval time.Duration
	Compat   CompatOptions
}

// Compiler makes Pages of Readings and keeps what outlives one: label text and
// idle spans. It is for one goroutine; the Pages are for any number.
type Compiler struct {
	opts     Options
	families []family
	maxAge   time.Duration
	labels   map[identity]*labelSet
	node     *labelSet
	idle     idleTracker
}

// NewCompiler returns a Compiler without memory.
func NewCompiler(o Options) *Compiler {
	maxAge := StaleAfter(o.Interval)
	return &Compiler{
		opts: o, families: all(), maxAge: maxAge,
		node: &labelSet{node: o.Node, texts: map[string]string{}},
		idle: idleTracker{maxGap: maxAge},
	}
}

// Compile joins a reading with its holders. a.Holders is parallel to
// r.Entities, whose order is a Reading's: each card before its instances.
func (c *Compiler) Compile(r *Reading, a Attribution) *Page {
	m := &Moment{taken: r.Taken, attribution: a.Taken, node: c.node}
	m.subjects = c.subjects(r, a)
	c.idle.observe(m.subjects)
	page := &Page{maxAge: c.maxAge, Taken: r.Taken}
	for i := range c.families {
		f := &c.families[i]
		out := pageFamily{name: f.desc.Name, help: f.desc.Help, kind: string(f.desc.Type), aging: f.aging}
		f.collect(m, &f.desc, out.add)
		page.families = append(page.families, out)
	}
	if c.opts.Compat.Mode != CompatOff {
		page.families = append(page.families, c.opts.Compat.families(m)...)
	}
	return page
}

// subjects also replaces the label cache, so that what is gone is forgotten.
func (c *Compiler) subjects(r *Reading, a Attribution) []subject {
	kept := make(map[identity]*labelSet, len(r.Entities))
	subjects := make([]subject, len(r.Entities))
	card := 0
	for i := range r.Entities {
		e := &r.Entities[i]
		if e.Kind == GPU {
			card = i
		} else if r.Entities[card].GPU == e.GPU {
			subjects[card].split = true
		}
		s := &subjects[i]
		s.entity, s.card, s.busy = e, card, busyOf(e)
		extra := c.opts.Compat.extra(e, &r.Entities[card])
		holders := a.of(i)
		if len(holders) == 1 {
			s.holder = holders[0]
		}
		s.labels = c.labelSet(kept, e, s.holder, extra)
		for _, h := range holders {
			s.holders = append(s.holders, subject{entity: e, labels: c.labelSet(kept, e, h, extra), holder: h})
		}
	}
	c.labels = kept
	return subjects
}

// labelSet returns the text kept for this identity, or begins a new one.
func (c *Compiler) labelSet(kept map[identity]*labelSet, e *Entity, h Holder, extra string) *labelSet {
	id := identify(e, h, extra)
	if l, ok := kept[id]; ok {
		return l
	}
	l, ok := c.labels[id]
	if !ok {
		l = &labelSet{id: id, node: c.opts.Node, texts: map[string]string{}}
		if c.opts.Compat.Mode != CompatOff {
			l.compat = c.opts.Compat.labels(e, h, extra)
		}
	}
	kept[id] = l
	return l
}
