package collect

import (
	"slices"
	"time"
)

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
	// MaxSeries is how many series a Page may have; 0 is any number.
	MaxSeries int
}

// Compiler makes Pages of Readings and keeps what outlives one: the ledger. It is for one
// goroutine; the Pages are for any number.
type Compiler struct {
	opts   Options
	ledger *ledger
}

// NewCompiler returns a Compiler that has no totals yet.
func NewCompiler(o Options) *Compiler {
	return &Compiler{opts: o, ledger: newLedger(o.Interval)}
}

// Reload sets the options of the DCGM series of the next pages. Totals
// continue.
func (c *Compiler) Reload(o CompatOptions) { c.opts.Compat = o }

// Compile joins a reading with its allocations. a.Allocations is parallel to
// r.Entities, whose order is a Reading's: each GPU before its instances.
func (c *Compiler) Compile(r *Reading, a Attribution) *Page {
	m := &Moment{taken: r.Taken, attribution: a.Taken, node: c.opts.Node}
	m.subjects = c.subjects(r, a)
	m.devices = c.devices(r, m)
	c.ledger.observe(m)
	page := &Page{maxAge: StaleAfter(c.opts.Interval), Taken: r.Taken, LeftOut: map[string]int{}, families: m.families()}
	if c.opts.Compat.Mode != CompatOff {
		page.families = append(page.families, c.opts.Compat.families(m)...)
	}
	if c.opts.MaxSeries > 0 {
		page.bound(c.opts.MaxSeries)
	}
	return page
}

// subjects are the entities. A GPU of which nothing is selected is left out with its instances.
func (c *Compiler) subjects(r *Reading, a Attribution) []subject {
	subjects := make([]subject, 0, len(r.Entities))
	for i := 0; i < len(r.Entities); {
		end := i + 1
		for end < len(r.Entities) && r.Entities[end].Kind == Instance && r.Entities[end].GPU == r.Entities[i].GPU {
			end++
		}
		if slices.ContainsFunc(r.Entities[i:end], func(e Entity) bool { return c.opts.Compat.selects(&e, false) }) {
			device := len(subjects)
			for j := i; j < end; j++ {
				subjects = append(subjects, c.subject(&r.Entities[j], &r.Entities[i], end-i > 1, a, j))
				subjects[len(subjects)-1].device = device
			}
		}
		i = end
	}
	return subjects
}

// devices joins the selected devices with their labels. A GPU's link has the GPU's pod and jobs,
// as in dcgm-exporter.
func (c *Compiler) devices(r *Reading, m *Moment) (out []subject) {
	for i := range r.Devices {
		e := &r.Devices[i]
		if c.opts.Compat.Mode == CompatOff || !c.opts.Compat.selects(e, false) {
			continue
		}
		holders := []*labelSet{{}}
		for s := range m.gpus {
			if e.Kind == GPULink && s.entity.GPU == e.Parent {
				holders = c.opts.Compat.holders(s)
			}
		}
		d := subject{entity: e, selected: true}
		own := joinLabels(c.opts.Compat.labels(e), c.opts.Compat.extra(e, e))
		for _, l := range holders {
			d.dcgm = append(d.dcgm, &labelSet{compat: joinLabels(own, l.held)})
		}
		out = append(out, d)
	}
	return out
}

// subject joins entity i with its allocations; split means that its GPU is partitioned.
func (c *Compiler) subject(e, device *Entity, split bool, a Attribution, i int) subject {
	split = split && e.Kind == GPU // not its instances
	s := subject{entity: e, busy: busyOf(e), split: split, selected: c.opts.Compat.selects(e, split)}
	own := joinLabels(c.opts.Compat.labels(e), c.opts.Compat.extra(e, device))
	labels := func(h Allocated, job string) *labelSet {
		l := &labelSet{node: c.opts.Node, entity: e, allocation: h.Allocation}
		if c.opts.Compat.Mode != CompatOff {
			l.held = c.opts.Compat.held(h, job, a.Pods[PodName{h.Namespace, h.Pod}])
			l.compat = joinLabels(own, l.held)
		}
		return l
	}
	var list []Allocated
	if i < len(a.Allocations) {
		list = a.Allocations[i]
	}
	for _, h := range list {
		s.allocations = append(s.allocations, subject{entity: e, labels: labels(h, ""), allocated: h})
	}
	if len(list) == 1 {
		s.labels = s.allocations[0].labels
	} else {
		s.labels = labels(common(list), "")
	}
	s.divideBusy()
	for _, job := range a.jobs(e) {
		s.dcgm = append(s.dcgm, labels(common(list), job))
	}
	if len(s.dcgm) == 0 {
		s.dcgm = []*labelSet{s.labels}
	}
	return s
}
