package collect

import "time"

// staleAfter is the age, in intervals, at which a value vanishes: one missed
// pass is tolerated, two are not.
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
	// Ledger is carried from one Compiler to the next; nil begins a new one.
	Ledger *Ledger
	// MaxSeries is how many series a Page may have; 0 is any number.
	MaxSeries int
}

// Compiler makes Pages of Readings and keeps what outlives one: label text and
// idle spans. It is for one goroutine; the Pages are for any number.
type Compiler struct {
	opts     Options
	families []family
	maxAge   time.Duration
	labels   map[identity]*labelSet
	node     *labelSet
	ledger   *Ledger
	last     []pageFamily // of the page before
}

// NewCompiler returns a Compiler that remembers what the Ledger does.
func NewCompiler(o Options) *Compiler {
	maxAge := StaleAfter(o.Interval)
	if o.Ledger == nil {
		o.Ledger = NewLedger(o.Interval)
	}
	return &Compiler{
		opts: o, families: all(), maxAge: maxAge,
		node:   &labelSet{node: o.Node, texts: map[string]string{}},
		ledger: o.Ledger,
	}
}

// Compile joins a reading with its allocations. a.Allocations is parallel to
// r.Entities, whose order is a Reading's: each GPU before its instances.
func (c *Compiler) Compile(r *Reading, a Attribution) *Page {
	m := &Moment{taken: r.Taken, attribution: a.Taken, node: c.node}
	m.subjects = c.subjects(r, a)
	m.devices = c.devices(r)
	c.ledger.observe(m)
	page := &Page{maxAge: c.maxAge, Taken: r.Taken, GPUs: r.GPUs()}
	for i := range c.families {
		f := &c.families[i]
		out := pageFamily{name: f.desc.Name, help: f.desc.Help, kind: string(f.desc.Type), aging: f.aging}
		f.collect(m, &f.desc, out.add)
		page.families = append(page.families, out)
	}
	if c.opts.Compat.Mode != CompatOff {
		page.families = append(page.families, c.opts.Compat.families(m)...)
	}
	page.bound(c.opts.MaxSeries, maxPageBytes)
	page.render(c.last)
	c.last = page.families
	return page
}

// subjects also replaces the label cache, so that what is gone is forgotten. A
// GPU of which nothing is selected is left out with its instances.
func (c *Compiler) subjects(r *Reading, a Attribution) []subject {
	kept := make(map[identity]*labelSet, len(r.Entities))
	subjects := make([]subject, 0, len(r.Entities))
	for i := 0; i < len(r.Entities); {
		end := i + 1
		for end < len(r.Entities) && r.Entities[end].Kind == Instance && r.Entities[end].GPU == r.Entities[i].GPU {
			end++
		}
		if c.opts.Compat.selectsAny(r.Entities[i:end]) {
			device := len(subjects)
			for j := i; j < end; j++ {
				subjects = append(subjects, c.subject(kept, &r.Entities[j], &r.Entities[i], end-i > 1, a, j))
				subjects[len(subjects)-1].device = device
			}
		}
		i = end
	}
	c.labels = kept
	return subjects
}

// subject joins entity i with its allocations; split means that its GPU is partitioned.
func (c *Compiler) subject(kept map[identity]*labelSet, e, device *Entity, split bool, a Attribution, i int) subject {
	s := subject{entity: e, busy: busyOf(e), split: split && e.Kind == GPU}
	id := identify(e)
	id.compat = c.opts.Compat.extra(e, device)
	var list []Allocated
	if i < len(a.Allocations) {
		list = a.Allocations[i]
	}
	labels := func(h Allocated) *labelSet {
		id.allocation, id.pod = h.Allocation, joinLabels(c.opts.Compat.usageLabels(h.Usage), a.Pods[PodName{h.Namespace, h.Pod}])
		return c.keep(kept, e, id)
	}
	for _, h := range list {
		s.allocations = append(s.allocations, subject{entity: e, labels: labels(h), usage: h.Usage})
	}
	s.labels = labels(common(list))
	s.divideBusy()
	if c.opts.Compat.selects(e, s.split) {
		s.dcgm = c.dcgmLabels(kept, &s, a.jobs(e))
	}
	return s
}

// dcgmLabels are the labels under which the entity's DCGM values stand.
func (c *Compiler) dcgmLabels(kept map[identity]*labelSet, s *subject, jobs []string) []*labelSet {
	if len(jobs) == 0 {
		return []*labelSet{s.labels}
	}
	var out []*labelSet
	for _, job := range jobs {
		id := s.labels.id
		id.job = job
		out = append(out, c.keep(kept, s.entity, id))
	}
	return out
}

// keep returns the text kept for this identity, or begins a new one.
func (c *Compiler) keep(kept map[identity]*labelSet, e *Entity, id identity) *labelSet {
	if l, ok := kept[id]; ok {
		return l
	}
	l, ok := c.labels[id]
	if !ok {
		l = &labelSet{id: id, node: c.opts.Node, texts: map[string]string{}}
		if c.opts.Compat.Mode != CompatOff {
			l.compat = c.opts.Compat.labels(e, &id)
		}
	}
	kept[id] = l
	return l
}
