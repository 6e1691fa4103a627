package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// Schedule does what kube-scheduler and the device plugins would: the most
// urgent pods first, each to the first node by name that fits. Pods that fit
// nowhere are marked unschedulable.
func (w *World) Schedule() []Event {
	var waiting []int
	for i, p := range w.State.Pods {
		if p.Node == "" {
			waiting = append(waiting, i)
		}
	}
	pods := w.State.Pods
	slices.SortStableFunc(waiting, func(a, b int) int {
		return cmp.Or(cmp.Compare(pods[b].Priority, pods[a].Priority), pods[a].PendingSince.Compare(pods[b].PendingSince),
			strings.Compare(pods[a].Key(), pods[b].Key()))
	})
	slices.SortStableFunc(w.State.Nodes, func(a, b plan.Node) int { return strings.Compare(a.Name, b.Name) })
	var events []Event
	for _, i := range waiting {
		p := &pods[i]
		for j := range w.State.Nodes {
			if n := &w.State.Nodes[j]; w.fits(p, n) {
				where := w.bind(p, n)
				p.Node, p.Unschedulable = n.Name, false
				events = append(events, Event{w.State.Now, fmt.Sprintf("%s runs on %s%s", p.Key(), n.Name, where)})
				break
			}
		}
		p.Unschedulable = p.Node == ""
	}
	return events
}

func (w *World) fits(p *plan.Pod, n *plan.Node) bool {
	if !n.Ready || n.Cordoned || !plan.Admits(*p, n.Labels, n.Taints) {
		return false
	}
	cpu, memory := p.CPUMilli, p.MemoryMi
	for i := range w.State.Pods {
		if q := &w.State.Pods[i]; q.Node == n.Name {
			cpu += q.CPUMilli
			memory += q.MemoryMi
		}
	}
	if n.CPUMilli > 0 && cpu > n.CPUMilli || n.MemoryMi > 0 && memory > n.MemoryMi {
		return false
	}
	_, ok := choose(p, n)
	return ok
}

// bind hands a pod its cards and instances and says which.
func (w *World) bind(p *plan.Pod, n *plan.Node) string {
	got, _ := choose(p, n)
	var names []string
	for _, g := range got {
		card := &n.Cards[g.card]
		name := fmt.Sprintf("/%d", card.Index)
		if g.instance < 0 {
			card.Holders = append(card.Holders, p.Key())
		} else {
			in := &card.Instances[g.instance]
			in.Holder, in.IdleSince = p.Key(), time.Time{}
			name += " " + plan.LayoutText(card.Model.Name, mig.Layout{in.Placement})
		}
		card.IdleSince = time.Time{}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

// grant is one card, or one instance of it, given to a pod.
type grant struct{ card, instance int }

// choose finds free cards and instances for a pod on a node. Fractions get a
// whole card: who shares what is not this world's business.
func choose(p *plan.Pod, n *plan.Node) ([]grant, bool) {
	var got []grant
	cards := p.Demand.Cards
	if p.Demand.Fraction != nil {
		cards++
	}
	for c := range n.Cards {
		card := &n.Cards[c]
		if cards > 0 && !card.MIG && card.Health != gpu.Sick && len(card.Holders) == 0 &&
			(p.Demand.Vendor == "" || card.Model.Vendor == p.Demand.Vendor) {
			got = append(got, grant{c, -1})
			cards--
		}
	}
	ok := cards <= 0
	for _, want := range p.Demand.MIG {
		left := want.Count
		for c := range n.Cards {
			t, known := mig.ForModel(n.Cards[c].Model.Name)
			if !known || n.Cards[c].Health == gpu.Sick {
				continue
			}
			profile, has := t.Exact(want.Name)
			for i := range n.Cards[c].Instances {
				in := &n.Cards[c].Instances[i]
				if has && left > 0 && in.Holder == "" && in.Profile == profile && !slices.Contains(got, grant{c, i}) {
					got = append(got, grant{c, i})
					left--
				}
			}
		}
		ok = ok && left <= 0
	}
	return got, ok
}
