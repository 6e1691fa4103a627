package observe

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
)

// GFD's node labels.
const (
	productLabel  = "nvidia.com/gpu.product"
	countLabel    = "nvidia.com/gpu.count"
	memoryLabel   = "nvidia.com/gpu.memory"
	strategyLabel = "nvidia.com/mig.strategy"
)

// maxCards bounds what a label is believed to say.
const maxCards = 64

// cards returns the node's cards: what the exporter sees, where it agrees with
// what the device plugin offers; otherwise where the agent of the node says that
// instances are; otherwise what mig-manager's config says. They hold until it is
// called again.
func (o *Observer) cards(in nodeInput, report map[int]reportedCard) []plan.Card {
	cards := o.devices(in, report)
	if r := in.reading; r != nil {
		measured := r.stillMeasured(in.now, o.o.MaxAge)
		for i := range cards {
			fromReading(&cards[i], r.cards[cards[i].Index], measured, in)
		}
	}
	switch {
	case in.reading == nil || !agrees(in, cards):
		if !fromReport(in, cards, report) {
			fromConfig(in, cards)
		}
	default:
		for i := range cards {
			if in.readingOf(cards[i].Index) != nil {
				place(&cards[i], report[cards[i].Index])
			}
		}
	}
	doubtUnattributed(in, cards)
	for i := range cards {
		o.trackIdle(in, &cards[i])
	}
	return cards
}

// devices are the cards that labels, the exporter and the agent know of, with
// nothing yet said about what is on them.
func (o *Observer) devices(in nodeInput, report map[int]reportedCard) []plan.Card {
	memory, _ := strconv.Atoi(in.node.Labels[memoryLabel])
	model, _ := in.models.of(in.tables, in.node.Labels[productLabel], memory)
	n := cardCount(in.node)
	if in.reading != nil {
		for index := range in.reading.cards {
			n = min(max(n, index+1), maxCards)
		}
	}
	for index := range report {
		n = min(max(n, index+1), maxCards)
	}
	if cap(o.scratch) < n {
		o.scratch = make([]plan.Card, n)
	}
	cards := o.scratch[:n]
	for i := range cards {
		cards[i] = plan.Card{Device: gpu.Device{Index: i, Model: model}}
	}
	return cards
}

// cardCount is what the labels say, or the cards on offer where there are none.
func cardCount(n *corev1.Node) int {
	if count, err := strconv.Atoi(n.Labels[countLabel]); err == nil && count > 0 && n.Labels[strategyLabel] != "single" {
		return min(count, maxCards)
	}
	total := int64(0)
	for name, q := range n.Status.Allocatable {
		if d, err := demandOf(string(name)); err == nil && d.Cards == 1 {
			total += q.Value()
		}
	}
	return int(min(total, maxCards))
}

// demandOf reads what one of an extended resource is; of any other it is nothing.
func demandOf(name string) (demand.Demand, error) {
	if !strings.Contains(name, "/") {
		return demand.Demand{}, nil
	}
	return demand.FromResources(map[string]int64{name: 1})
}

// fromReading fills a card with what the exporter said about it; measured tells
// which busy ratios are fresh.
func fromReading(c *plan.Card, r *cardReading, measured func(sample.Value) bool, in nodeInput) {
	if r == nil || !r.listed {
		return
	}
	c.UUID, c.Health, c.MIG, c.Busy = r.uuid, r.health, r.mig, r.work.busy()
	if model, ok := in.models.of(in.tables, r.model, 0); ok {
		c.Model = model
	}
	if c.Holders = r.holders; len(c.Holders) > 1 {
		c.Holders = slices.Sorted(slices.Values(r.holders))
	}
	c.HoldersKnown = true
	c.UnusedSince = r.unused.by(r.holders, measured(c.Busy))
	if !c.MIG {
		return
	}
	table, ok := in.tables.ForModel(c.Model.Name)
	if !ok {
		c.HoldersKnown = false
		return
	}
	for _, id := range slices.Sorted(maps.Keys(r.instances)) {
		i := r.instances[id]
		profile, err := table.Lookup(i.profile)
		if !i.listed || err != nil {
			c.HoldersKnown = false // something holds what we cannot place
			continue
		}
		busy := i.work.busy()
		inst := plan.Instance{
			Placement: mig.Placement{Profile: profile, Start: max(i.start, 0)},
			Placed:    i.start >= 0, UUID: i.uuid, Busy: busy,
			UnusedSince: i.unused.by(i.holders, measured(busy)),
		}
		if len(i.holders) > 0 {
			inst.Holder = slices.Min(i.holders)
		}
		c.Instances = append(c.Instances, inst)
	}
	slices.SortFunc(c.Instances, func(a, b plan.Instance) int { return a.Placement.Compare(b.Placement) })
	settle(c, table)
}

// settle makes sure that what is said about a MIG card can be true: a holder of
// the whole card is one of an instance we do not know, and a layout that no card
// can have was read halfway through a change.
func settle(c *plan.Card, table *mig.Table) {
	if len(c.Holders) > 0 {
		c.Holders, c.HoldersKnown, c.UnusedSince = nil, false, time.Time{}
	}
	var placed mig.Layout
	for _, i := range c.Instances {
		if i.Placed {
			placed = append(placed, i.Placement)
		}
	}
	if table.Legal(placed) != nil {
		c.Instances, c.HoldersKnown = nil, false
	}
}

// agrees reports whether the exporter's instances are those the device plugin
// offers: right after a repartition one of them is behind. While a card is
// being cut the plugin offers nothing, and the exporter is believed.
func agrees(in nodeInput, cards []plan.Card) bool {
	if beingCut(in.node) || in.node.Labels[strategyLabel] == "single" {
		return true
	}
	if !anyMIG(cards) && !offersInstances(in.node) {
		return true // most nodes: there is nothing to compare
	}
	layout, err := partition.LayoutOf(in.tables, cards)
	if err != nil {
		return false
	}
	return partition.SameOffer(instancesOnly(layout.Resources()), instancesOnly(partition.Advertised(in.node)))
}

func anyMIG(cards []plan.Card) bool {
	for i := range cards { // they are large: not copied
		if cards[i].MIG {
			return true
		}
	}
	return false
}

const instancePrefix = "nvidia.com/mig-"

func offersInstances(n *corev1.Node) bool {
	for name := range n.Status.Allocatable {
		if strings.HasPrefix(string(name), instancePrefix) {
			return true
		}
	}
	return false
}

// instancesOnly leaves out whole cards, whose number replicas change.
func instancesOnly(resources map[string]int64) map[string]int64 {
	out := maps.Clone(resources)
	maps.DeleteFunc(out, func(name string, _ int64) bool { return !strings.HasPrefix(name, instancePrefix) })
	return out
}

// fromConfig gives cards the layout that the node's selected config says, or
// the one before an operation under way. Nobody says who holds what.
func fromConfig(in nodeInput, cards []plan.Card) {
	name := in.node.Labels[partition.ConfigLabel]
	if r, ok, err := partition.RecordOf(in.node); ok && err == nil {
		name = r.Previous
	}
	layout := configLayout(in.config, name, len(cards))
	offered := instancesOnly(partition.Advertised(in.node))
	if layout == nil && partition.Advertised(in.node)[partition.CardResource] == 0 {
		layout = spread(offered, cards, in.tables)
	}
	for i := range cards {
		c := &cards[i]
		forgetHolders(c)
		c.MIG = len(offered) > 0
		if layout == nil {
			continue
		}
		c.MIG = layout[i].MIG
		c.Instances = unplaced(in.tables, c.Model.Name, layout[i].Counts)
	}
}

// forgetHolders takes back what a reading said that turned out to be behind.
func forgetHolders(c *plan.Card) {
	c.HoldersKnown, c.Holders, c.Instances, c.UnusedSince = false, nil, nil, time.Time{}
}

// configLayout returns what a named config makes of n cards, nil where it does
// not say.
func configLayout(config partition.Config, name string, n int) partition.NodeLayout {
	layout := make(partition.NodeLayout, n)
	for i := range layout {
		counts, isMIG, known := config.Counts(name, i)
		if !known {
			return nil
		}
		layout[i] = partition.CardLayout{MIG: isMIG, Counts: counts}
	}
	if n == 0 {
		return nil
	}
	return layout
}

// unplaced returns instances of which only the number is known, at starts where
// they could be.
func unplaced(tables mig.Tables, model string, counts map[string]int) []plan.Instance {
	table, ok := tables.ForModel(model)
	if !ok {
		return nil
	}
	var want []mig.Count
	for name, n := range counts {
		profile, err := table.Lookup(name)
		if err != nil {
			return nil
		}
		want = append(want, mig.Count{Profile: profile, N: n})
	}
	layout, ok := table.Arrange(nil, want)
	if !ok {
		return nil
	}
	out := make([]plan.Instance, len(layout))
	for i, p := range layout {
		out[i] = plan.Instance{Placement: p}
	}
	return out
}
