package ledger

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// trailing is how long after the last sample of its exporter a node counts as unknown. After that it counts
// as removed.
const trailing = time.Hour

// exporterRecord holds the exporter's series on a grid of their own.
type exporterRecord struct {
	models               map[string]*model
	names                []string // of the models, in order
	step                 float64  // seconds
	each                 int      // steps in one step of the ledger
	noGPUs, noPod, noUse []bool   // moments without an answer
}

// has reports whether any GPU has a sample in a step of the ledger.
func (r *exporterRecord) has(k int) bool {
	return slices.ContainsFunc(r.names, func(name string) bool {
		return slices.Contains(r.models[name].seen[(k-1)*r.each+1:k*r.each+1], true)
	})
}

// exporter enters one step of the exporter's record: the GPUs with samples, and GPUs that are known from the
// steps around it.
func (b *book) exporter(r *exporterRecord, k int) {
	for _, name := range r.names {
		m := r.models[name]
		put := func(key Key, p Place, gpus float64) {
			b.there(k, Key{Model: name}, gpus*r.step)
			b.put(k, key, p, gpus*r.step)
		}
		for i := (k-1)*r.each + 1; i <= k*r.each; i++ {
			switch {
			case math.IsNaN(m.gpus[i]):
			case r.noGPUs[i]:
				put(Key{Model: name}, Unknown, m.gpus[i])
			default:
				m.at(name, i, r.noPod[i], r.noUse[i], put)
			}
		}
	}
}

// exporterSeen reads the exporter's series.
func exporterSeen(a query.Answers, ledger query.Grid) *exporterRecord {
	g := a.Window.Grid(a.Window.Step)
	models := exporterModels(a, g)
	return &exporterRecord{
		models: models, names: slices.Sorted(maps.Keys(models)), step: g.Step.Seconds(), each: int(ledger.Step / g.Step), noGPUs: a.Missing(g, query.Nodes),
		noPod: a.Missing(g, query.Allocated, query.Sick, query.Dark), noUse: a.Missing(g, query.Measured, query.IdleAllocated, query.Busy),
	}
}

// model holds the GPUs of one model over the exporter's grid.
type model struct {
	gpus, unseen, sick, dark []float64 // in GPUs; NaN for no sample
	seen                     []bool
	namespaces               map[string]use
}

// use is what is allocated to one namespace of a model, in GPUs, by query.
type use map[query.ID][]float64

var uses = []query.ID{query.Allocated, query.Measured, query.IdleAllocated, query.Busy}

func exporterModels(a query.Answers, g query.Grid) map[string]*model {
	models := map[string]*model{}
	of := func(ls prom.Labels) *model {
		name := modelName(ls.Get(metric.LabelModel))
		m := models[name]
		if m == nil {
			m = &model{
				gpus: nans(g.N + 1), unseen: make([]float64, g.N+1), sick: make([]float64, g.N+1), dark: make([]float64, g.N+1),
				seen: make([]bool, g.N+1), namespaces: map[string]use{},
			}
			models[name] = m
		}
		return m
	}
	for _, l := range a.Lines[query.Nodes] {
		of(l.Labels).node(Values(l, g), int(trailing/g.Step))
	}
	for _, l := range a.Lines[query.Sick] {
		accumulate(of(l.Labels).sick, Values(l, g), 1)
	}
	for _, l := range a.Lines[query.Dark] {
		accumulate(of(l.Labels).dark, Values(l, g), 1)
	}
	for _, id := range uses {
		for _, l := range a.Lines[id] {
			m := of(l.Labels)
			ns := l.Labels.Get(a.Dialect.Namespace())
			u := m.namespaces[ns]
			if u == nil {
				u = use{}
				for _, each := range uses {
					u[each] = make([]float64, g.N+1)
				}
				m.namespaces[ns] = u
			}
			part := 1.0
			if id != query.Busy { // this query is in GPUs
				part = Part(l.Labels.Get(metric.LabelModel), l.Labels.Get(metric.LabelProfile))
			}
			accumulate(u[id], Values(l, g), part)
		}
	}
	return models
}

// node adds one node's GPUs. Between two samples they count as present, even where samples are missing.
func (m *model) node(values []float64, last int) {
	before := -1
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		for k := before + 1; before >= 0 && k < i; k++ {
			missing := min(values[before], v)
			add(m.gpus, k, missing)
			m.unseen[k] += missing
		}
		add(m.gpus, i, v)
		m.seen[i] = true
		before = i
	}
	for k := before + 1; before >= 0 && k < len(values) && k <= before+max(1, last); k++ {
		add(m.gpus, k, values[before])
		m.unseen[k] += values[before]
	}
}

// at puts the GPUs of one moment into their places. The places add up to the number of GPUs, or to more,
// since series are not sampled at the same instant. Without a sample of allocation nothing is free; without a
// sample of use nothing is measured.
func (m *model) at(name string, i int, noPod, noUse bool, enter func(Key, Place, float64)) {
	rest := m.gpus[i]
	put := func(key Key, p Place, gpus float64) {
		if gpus > 0 {
			enter(key, p, gpus)
			rest -= gpus
		}
	}
	unseen := Key{Model: name}
	put(unseen, Unknown, m.unseen[i]+m.dark[i])
	put(unseen, Sick, m.sick[i])
	for _, ns := range slices.Sorted(maps.Keys(m.namespaces)) {
		u := m.namespaces[ns]
		key := Key{Model: name, Namespace: ns}
		allocated := u[query.Allocated][i]
		measured := min(allocated, u[query.Measured][i])
		if noUse {
			measured = 0
		}
		idle := min(measured, u[query.IdleAllocated][i])
		busy := min(measured-idle, u[query.Busy][i])
		put(key, Busy, busy)
		put(key, Idle, idle)
		put(key, Slack, measured-idle-busy)
		put(key, Unmeasured, allocated-measured)
	}
	if rest > 1e-9 {
		place := Free
		if noPod {
			place = Unknown
		}
		enter(unseen, place, rest)
	}
}

func accumulate(sum, values []float64, times float64) {
	for i, v := range values {
		if !math.IsNaN(v) {
			sum[i] += v * times
		}
	}
}

// Part is the fraction of a GPU that an instance of a profile is: its share of the compute slices, as the
// exporter counts. Without a profile, or with an unknown one, it is the whole GPU.
func Part(model, profile string) float64 {
	if profile == "" {
		return 1
	}
	if t, ok := mig.ForModel(model); ok {
		if p, err := t.Lookup(profile); err == nil {
			return float64(p.Compute) / float64(t.ComputeSlices())
		}
	}
	n, err := mig.ParseName(profile)
	if err != nil {
		return 1
	}
	return min(1, float64(n.Compute)/7)
}
