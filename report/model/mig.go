package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/report/query"
)

// MIG is section 5.
type MIG struct {
	Cards         []MIGCard       `json:"cards" doc:"Cards cut into instances at the end, at most 512."`
	CardsTotal    int             `json:"cardsTotal"`
	Fragmentation []Fragmentation `json:"fragmentation"`
	Profiles      []Profile       `json:"profiles"`
	RightSize     []RightSize     `json:"rightSize" doc:"Who would do with a smaller slice, the most saved first."`
	RightSizeNote string          `json:"rightSizeNote" doc:"The evidence asked for, and what it left out."`
	Missing       string          `json:"missing" doc:"What the section lacks, if anything."`
}

// MIGCard is a card and its instances.
type MIGCard struct {
	Node      string     `json:"node"`
	GPU       string     `json:"gpu"`
	UUID      string     `json:"uuid"`
	Model     string     `json:"model"`
	Slices    int        `json:"slices" doc:"Memory slices of the card."`
	Instances []Instance `json:"instances" doc:"By start."`
}

// Instance is a MIG instance.
type Instance struct {
	Profile string `json:"profile"`
	Start   int    `json:"start" doc:"First memory slice."`
	Size    int    `json:"size" doc:"Memory slices."`
	Holder  string `json:"holder" doc:"namespace/pod, of several the first and how many more; empty where nobody holds it."`
}

// Fragmentation is how scattered the free slices of a model's cut cards are.
type Fragmentation struct {
	Model string `json:"model"`
	Cards int    `json:"cards"`
	Free  int    `json:"free" doc:"Compute slices nobody holds."`
	Index Number `json:"index" doc:"1 - (compute slices of the largest instance that fits beside what is held, over all cards) ÷ free. 0: every card's free slices are one piece."`
}

// Profile is a kind of instance and its use.
type Profile struct {
	Model     string `json:"model"`
	Profile   string `json:"profile"`
	Instances int    `json:"instances" doc:"At the end."`
	Held      int    `json:"held" doc:"At the end."`
	Mean      Number `json:"mean" doc:"Instances held, mean over the window."`
}

// RightSize is who would do with less.
type RightSize struct {
	Namespace string `json:"namespace"`
	Workload  string `json:"workload"`
	Model     string `json:"model"`
	From      string `json:"from" doc:"Profile held, \"whole card\" for none."`
	To        string `json:"to" doc:"Smallest profile that has room, with the margin."`
	Memory    Number `json:"memory" doc:"99th percentile of memory in use, bytes."`
	Use       Number `json:"use" doc:"95th percentile of use, as a share of what is held."`
	Evidence  Number `json:"evidence" doc:"Hours of one holder watched."`
	Hours     Number `json:"hours" doc:"GPU-hours it would have saved."`
}

// mostCards bounds the map.
const mostCards = 512

// What right-sizing asks for.
const (
	evidenceHours = 24   // of one holder
	memoryMargin  = 1.15 // on the 99th percentile
	useMargin     = 1.25 // on the 95th percentile
)

func (m *maker) mig() MIG {
	o := MIG{}
	if !m.a.Exporter {
		o.Missing = noExporter
		return o
	}
	o.RightSize, o.RightSizeNote = m.rightSize()
	if why := m.open(query.Cards, query.Instances, query.HeldNow); why != "" {
		o.Missing = why
		return o // without a holder what is held would be drawn as free
	}
	cards := m.migCards()
	o.CardsTotal = len(cards)
	o.Fragmentation = m.fragmentation(cards)
	o.Profiles = m.profiles(cards)
	o.Cards = cards[:min(len(cards), mostCards)]
	if len(cards) == 0 {
		o.Missing = "no card was cut into MIG instances at the end of the window"
	}
	return o
}

func (m *maker) migCards() []MIGCard {
	holders := map[string][]string{}
	for _, s := range m.a.Vectors[query.HeldNow] {
		id := s.Labels.Get(metric.LabelGPUUUID) + "/" + s.Labels.Get(metric.LabelGPUInstanceID)
		holders[id] = append(holders[id], s.Labels.Get(m.a.Dialect.Namespace())+"/"+s.Labels.Get(m.a.Dialect.Pod()))
	}
	cards := map[string]*MIGCard{}
	for _, s := range m.a.Vectors[query.Instances] {
		uuid := s.Labels.Get(metric.LabelGPUUUID)
		c := cards[uuid]
		if c == nil {
			c = &MIGCard{Node: s.Labels.Get(metric.LabelNode), GPU: s.Labels.Get(metric.LabelGPU), UUID: uuid, Model: gpu.ProductName(m.models[uuid]), Slices: 8}
			if t, ok := mig.ForModel(c.Model); ok {
				c.Slices = t.MemorySlices()
			}
			cards[uuid] = c
		}
		start, err1 := strconv.Atoi(s.Labels.Get(metric.LabelStart))
		size, err2 := strconv.Atoi(s.Labels.Get(metric.LabelSize))
		if err1 != nil || err2 != nil || start < 0 || size < 1 || start+size > c.Slices {
			continue // no place on the card: it would be drawn over another
		}
		who := holders[uuid+"/"+s.Labels.Get(metric.LabelGPUInstanceID)]
		slices.Sort(who)
		who = slices.Compact(who)
		i := Instance{Profile: s.Labels.Get(metric.LabelProfile), Start: start, Size: size}
		if len(who) > 0 {
			i.Holder = who[0]
		}
		if len(who) > 1 {
			i.Holder += fmt.Sprintf(" and %d more", len(who)-1)
		}
		c.Instances = append(c.Instances, i)
	}
	var all []MIGCard
	for _, uuid := range sortedKeys(cards) {
		slices.SortFunc(cards[uuid].Instances, func(a, b Instance) int { return cmp.Compare(a.Start, b.Start) })
		all = append(all, *cards[uuid])
	}
	slices.SortStableFunc(all, func(a, b MIGCard) int {
		x, _ := strconv.Atoi(a.GPU)
		y, _ := strconv.Atoi(b.GPU)
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(x, y))
	})
	return all
}

// fragmentation compares what is free with the largest instance each card could
// have beside what is held.
func (m *maker) fragmentation(cards []MIGCard) []Fragmentation {
	type sums struct{ cards, free, piece int }
	by := map[string]*sums{}
	for _, c := range cards {
		t, ok := mig.ForModel(c.Model)
		if !ok {
			continue
		}
		var held mig.Layout
		for _, i := range c.Instances {
			if p, err := t.Lookup(i.Profile); err == nil && i.Holder != "" {
				held = append(held, mig.Placement{Profile: p, Start: i.Start})
			}
		}
		held = mig.NewLayout(held...)
		if t.Legal(held) != nil {
			continue
		}
		if by[c.Model] == nil {
			by[c.Model] = &sums{}
		}
		s := by[c.Model]
		free, _ := t.Room(held)
		largest := 0
		for _, p := range t.Free(held) {
			largest = max(largest, p.Profile.Compute)
		}
		s.cards++
		s.free += free
		s.piece += largest
	}
	var all []Fragmentation
	for _, model := range sortedKeys(by) {
		s := by[model]
		f := Fragmentation{Model: model, Cards: s.cards, Free: s.free, Index: Unknown("no slice is free")}
		if s.free > 0 {
			f.Index = Known(1 - float64(s.piece)/float64(s.free))
		}
		all = append(all, f)
	}
	return all
}

func (m *maker) profiles(cards []MIGCard) []Profile {
	type key struct{ model, profile string }
	by := map[string]*Profile{}
	name := func(k key) string { return k.model + "\xff" + k.profile }
	of := func(k key) *Profile {
		p := by[name(k)]
		if p == nil {
			p = &Profile{Model: k.model, Profile: k.profile, Mean: Known(0)}
			by[name(k)] = p
		}
		return p
	}
	for _, c := range cards {
		for _, i := range c.Instances {
			p := of(key{c.Model, i.Profile})
			p.Instances++
			if i.Holder != "" {
				p.Held++
			}
		}
	}
	g := m.a.Window.Grid(m.a.Window.Step)
	// Where no exporter was seen there is no value: the mean is over where one was.
	seen := map[int]bool{}
	for _, l := range m.a.Lines[query.Nodes] {
		for _, point := range l.Points {
			if i, ok := g.Index(point.Time); ok && i > 0 && !math.IsNaN(point.Value) {
				seen[i] = true
			}
		}
	}
	for _, l := range m.a.Lines[query.Held] {
		profile := l.Labels.Get(metric.LabelProfile)
		if profile == "" {
			continue
		}
		p := of(key{gpu.ProductName(l.Labels.Get(metric.LabelModel)), profile})
		sum := 0.0
		for _, point := range l.Points {
			if i, ok := g.Index(point.Time); ok && i > 0 && !math.IsNaN(point.Value) {
				sum += point.Value
			}
		}
		if len(seen) > 0 {
			p.Mean = p.Mean.Plus(Known(sum / float64(len(seen))))
		}
	}
	var all []Profile
	for _, k := range sortedKeys(by) {
		by[k].Mean = m.unless(by[k].Mean, query.Held)
		all = append(all, *by[k])
	}
	return all
}

// rightSize finds holders that a smaller instance would do for.
func (m *maker) rightSize() ([]RightSize, string) {
	var all []RightSize
	young, blind := 0, 0
	for _, w := range m.sortedWork() {
		hours, evidence := m.markedHours(w.held)
		t, ok := mig.ForModel(w.model)
		if !ok || hours == 0 {
			continue
		}
		switch {
		case evidence < evidenceHours:
			young++
			continue
		case math.IsNaN(w.memory) || math.IsNaN(w.use):
			blind++
			continue
		}
		to, part, ok := smallest(t, w.memory, w.use*w.part())
		if !ok || part >= w.part()-1e-9 {
			continue
		}
		from := w.profile
		if from == "" {
			from = "whole card"
		}
		all = append(all, RightSize{
			Namespace: w.namespace, Workload: w.name, Model: t.Model(), From: from, To: to, Memory: Known(w.memory), Use: Known(w.use),
			Evidence: Known(evidence), Hours: Known(hours * (w.part() - part)),
		})
	}
	most(all, func(r RightSize) Number { return r.Hours }, func(r RightSize) string { return r.Namespace + "/" + r.Workload + r.From })
	note := fmt.Sprintf("Evidence asked for: %d hours of one holder, memory with a margin of %.0f %% on the 99th percentile, use with %.0f %% on the 95th. "+
		"The percentiles are the largest of the window's days.", evidenceHours, 100*(memoryMargin-1), 100*(useMargin-1))
	if young > 0 {
		note += fmt.Sprintf(" Not enough data of %d workloads.", young)
	}
	if blind > 0 {
		note += fmt.Sprintf(" Memory or use of %d workloads is not measured.", blind)
	}
	return all, note
}

// smallest returns the profile with the least compute that has room for so much
// memory and use of the whole card, and what part of the card it is.
func smallest(t *mig.Table, memory, use float64) (name string, part float64, ok bool) {
	const mib = 1 << 20
	for _, p := range t.Profiles() {
		share := float64(p.Compute) / float64(t.ComputeSlices())
		room := float64(t.MemoryMiB(p)) * mib
		if p.Attrs != 0 || room < memory*memoryMargin || share < use*useMargin {
			continue
		}
		if !ok || share < part {
			name, part, ok = t.Name(p), share, true
		}
	}
	return name, part, ok
}
