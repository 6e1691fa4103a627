package observe

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// reports are what agents have written on their nodes. A report is parsed once,
// since it changes rarely and there may be one on each of many nodes.
type reports struct {
	parsed map[string]parsedReport // by node
	said   []error                 // of this round, why one is not believed
}

type parsedReport struct {
	text string
	partition.Report
	err   error
	round bool // asked for since the last sweep
}

// reportedCard is what an agent says of a card. What it said about holders is not
// kept: it may be minutes old.
type reportedCard struct {
	known     bool // else the agent could not read the card
	uuid      string
	mig       bool
	instances []plan.Instance
}

// of returns what the node's agent says of its cards, by driver index; nil where it
// says nothing that can be believed.
func (r *reports) of(in nodeInput) map[int]reportedCard {
	text := in.node.Annotations[partition.LayoutAnnotation]
	if text == "" {
		return nil
	}
	p, ok := r.parsed[in.node.Name]
	if !ok || p.text != text {
		p = parsedReport{text: text}
		p.Report, p.err = partition.ParseReport(text)
	}
	p.round = true
	if r.parsed == nil {
		r.parsed = map[string]parsedReport{}
	}
	r.parsed[in.node.Name] = p
	cards, err := believed(in, p)
	if err != nil {
		r.said = append(r.said, fmt.Errorf("node %s: %w", in.node.Name, err))
		return nil
	}
	return cards
}

// sweep forgets nodes that were not asked for since the last time, and returns why
// reports were not believed.
func (r *reports) sweep() error {
	for name, p := range r.parsed {
		if !p.round {
			delete(r.parsed, name)
			continue
		}
		p.round = false
		r.parsed[name] = p
	}
	const most = 10 // a thousand old ones are one problem
	err := errors.Join(r.said[:min(len(r.said), most)]...)
	r.said = nil
	return err
}

// believed checks a report against all else that is known of the node.
func believed(in nodeInput, p parsedReport) (map[int]reportedCard, error) {
	if p.err != nil {
		return nil, p.err
	}
	if err := p.Stale(in.node, in.now); err != nil {
		return nil, err
	}
	contradicts := func(format string, args ...any) error {
		return fmt.Errorf("annotation %s: %s", partition.LayoutAnnotation, fmt.Sprintf(format, args...))
	}
	if len(p.Cards) == 0 {
		return nil, contradicts("no cards: %s", p.Problem)
	}
	if n, err := strconv.Atoi(in.node.Labels[countLabel]); err == nil && in.node.Labels[strategyLabel] != "single" && n != len(p.Cards) {
		return nil, contradicts("%d cards, label %s says %d", len(p.Cards), countLabel, n)
	}
	out := map[int]reportedCard{}
	offer := map[string]int64{}
	for _, c := range p.Cards {
		card := reportedCard{uuid: c.UUID, mig: c.MIG}
		l, known, err := c.Layout(in.tables)
		if err != nil {
			return nil, contradicts("card %d: %v", c.Index, err)
		}
		if r := in.readingOf(c.Index); r != nil && r.uuid != "" && c.UUID != "" && r.uuid != c.UUID {
			return nil, contradicts("card %d is %s, the exporter says %s", c.Index, c.UUID, r.uuid)
		}
		table, ok := in.tables.ForModel(c.Model)
		if card.known = known && (ok || len(l) == 0); card.known {
			for _, i := range l {
				offer[mig.ResourceName(table.Name(i.Profile))]++
			}
			card.instances = reportedInstances(c, l)
		}
		out[c.Index] = card
	}
	if have := instancesOnly(partition.Advertised(in.node)); !beingCut(in.node) && in.node.Labels[strategyLabel] != "single" && !partition.SameOffer(have, offer) {
		return nil, contradicts("%v, the device plugin offers %v", offer, have)
	}
	return out, nil
}

// reportedInstances are the instances of a card, at the places that the report says.
func reportedInstances(c partition.CardReport, l mig.Layout) []plan.Instance {
	out := make([]plan.Instance, len(l))
	for i, place := range l {
		out[i] = plan.Instance{Placement: place, Placed: true}
		for _, r := range c.Instances {
			if r.Place == place.String() {
				out[i].UUID = r.UUID
			}
		}
	}
	return out
}

// beingCut reports whether a card of the node is: what the device plugin offers is
// then behind or nothing.
func beingCut(n *corev1.Node) bool {
	_, cutting := n.Annotations[partition.RecordAnnotation]
	return cutting
}

// readingOf is what the exporter said of a card, nil for nothing.
func (in nodeInput) readingOf(index int) *cardReading {
	if in.reading == nil || in.reading.cards[index] == nil || !in.reading.cards[index].listed {
		return nil
	}
	return in.reading.cards[index]
}

// fromReport gives cards the layouts that the agent reports; false where it does
// not. Nobody says who holds what.
func fromReport(in nodeInput, cards []plan.Card, report map[int]reportedCard) bool {
	if len(report) == 0 {
		return false
	}
	isMIG := len(instancesOnly(partition.Advertised(in.node))) > 0
	for i := range cards {
		c, r := &cards[i], report[cards[i].Index]
		forgetHolders(c)
		c.MIG = isMIG
		if r.uuid != "" {
			c.UUID = r.uuid
		}
		if r.known {
			c.MIG, c.Instances = r.mig, slices.Clone(r.instances)
		}
	}
	return true
}

// place puts what the exporter says of a card and what the agent says together. An
// instance of which the exporter does not know the place is where the agent says.
// Where they differ one of them is behind, and nobody knows which.
func place(c *plan.Card, r reportedCard) {
	if !r.known {
		return
	}
	left := slices.Clone(r.instances)
	take := func(in *plan.Instance, is func(plan.Instance) bool) bool {
		at := slices.IndexFunc(left, func(s plan.Instance) bool { return s.Profile == in.Profile && is(s) })
		if at >= 0 {
			in.Placement, in.Placed = left[at].Placement, true
			left = slices.Delete(left, at, at+1)
		}
		return at >= 0
	}
	same := c.MIG == r.mig && len(c.Instances) == len(r.instances)
	for i := range c.Instances {
		in := &c.Instances[i]
		if in.Placed && !take(in, func(s plan.Instance) bool { return s.Start == in.Start }) {
			same = false
		}
	}
	for i := range c.Instances {
		if in := &c.Instances[i]; !in.Placed && in.UUID != "" {
			take(in, func(s plan.Instance) bool { return s.UUID == in.UUID })
		}
	}
	for i := range c.Instances {
		// The last of its kind is at the last place of its kind.
		if in := &c.Instances[i]; !in.Placed && unplacedOf(c, in.Profile) == 1 && !take(in, func(plan.Instance) bool { return true }) {
			same = false
		}
	}
	if !same {
		for i := range c.Instances {
			c.Instances[i].Placed = false
		}
		c.HoldersKnown = false
	}
	slices.SortFunc(c.Instances, func(a, b plan.Instance) int { return a.Placement.Compare(b.Placement) })
}

func unplacedOf(c *plan.Card, p mig.Profile) int {
	n := 0
	for i := range c.Instances {
		if !c.Instances[i].Placed && c.Instances[i].Profile == p {
			n++
		}
	}
	return n
}

// cutToNothing reports whether the agent says that all cards are in MIG mode with no
// instance: such a node has nothing to offer, and is there all the same.
func cutToNothing(report map[int]reportedCard) bool {
	for _, r := range report {
		if !r.known || !r.mig || len(r.instances) > 0 {
			return false
		}
	}
	return len(report) > 0
}
