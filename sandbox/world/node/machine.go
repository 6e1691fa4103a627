package node

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Spec of a machine.
type Spec struct {
	Name    string
	Product string // as GFD says it: "NVIDIA-H100-80GB-HBM3"
	Cards   int
	// Layouts are the instances of each card at boot; empty where MIG is off.
	// One entry stands for all cards.
	Layouts []mig.Layout
	Delays  Delays
}

// Delays of the host software.
type Delays struct {
	Pause     time.Duration // until mig-manager's clients have ended
	Apply     time.Duration // mig-parted's work
	Enumerate time.Duration // device plugin: from its start to its first report
}

// DefaultDelays are those of a real node, compressed about ten times.
func DefaultDelays() Delays {
	return Delays{Pause: time.Second, Apply: time.Second, Enumerate: time.Second}
}

// Card is a physical card.
type Card struct {
	Index     int
	UUID      string // "GPU-…"
	PCIBusID  string
	MIG       bool
	Instances []Instance // by start
}

// Instance is a MIG instance of a card.
type Instance struct {
	mig.Placement
	ID      int    // GPU instance id
	UUID    string // "MIG-…"
	Profile string // "3g.40gb"
}

// Layout of the card.
func (c Card) Layout() mig.Layout {
	ps := make([]mig.Placement, len(c.Instances))
	for i, in := range c.Instances {
		ps[i] = in.Placement
	}
	return mig.NewLayout(ps...)
}

// Machine is a GPU node. It is not safe for concurrent use and knows no clock.
type Machine struct {
	spec    Spec
	model   gpu.Model
	table   *mig.Table // nil: the product has no MIG
	cards   []Card
	held    map[string]device // by device id
	known   map[string]int    // extended resources ever advertised, and how many last
	plugin  plugin
	manager manager

	exporter bool // runs, and holds handles of the cards
}

// New returns a machine that starts its device plugin now.
func New(spec Spec, now time.Time) (*Machine, error) {
	model, ok := gpu.ParseProduct(spec.Product)
	if !ok {
		return nil, fmt.Errorf("node %s: unknown product %q", spec.Name, spec.Product)
	}
	m := &Machine{spec: spec, model: model, held: map[string]device{}, known: map[string]int{}}
	m.table, _ = mig.ForModel(model.Name)
	if n := len(spec.Layouts); n > 1 && n != spec.Cards || spec.Cards < 1 {
		return nil, fmt.Errorf("node %s: %d layouts for %d cards", spec.Name, n, spec.Cards)
	}
	for i := range spec.Cards {
		card := Card{
			Index:    i,
			UUID:     "GPU-" + uuid(spec.Name, i),
			PCIBusID: fmt.Sprintf("00000000:%02X:00.0", 0x0f+i*0x10),
			MIG:      len(spec.Layouts) > 0,
		}
		if card.MIG {
			layout := spec.Layouts[min(i, len(spec.Layouts)-1)]
			if err := m.lay(&card, layout); err != nil {
				return nil, fmt.Errorf("node %s, card %d: %w", spec.Name, i, err)
			}
		}
		m.cards = append(m.cards, card)
	}
	m.plugin.start(now, spec.Delays.Enumerate)
	return m, nil
}

// lay gives a card new instances.
func (m *Machine) lay(card *Card, layout mig.Layout) error {
	if m.table == nil {
		return fmt.Errorf("%s has no MIG", m.spec.Product)
	}
	if err := m.table.Legal(layout); err != nil {
		return err
	}
	card.Instances = nil
	for _, p := range mig.NewLayout(layout...) {
		id := instanceID(p)
		card.Instances = append(card.Instances, Instance{
			Placement: p,
			ID:        id,
			UUID:      "MIG-" + uuid(card.UUID, id),
			Profile:   m.table.Name(p.Profile),
		})
	}
	return nil
}

// instanceID numbers instances as the driver does: by size, then by place.
func instanceID(p mig.Placement) int {
	switch {
	case p.Profile.Compute >= 7:
		return 0
	case p.Profile.Compute >= 3:
		return 1 + p.Start/4
	case p.Profile.Compute == 2:
		return 3 + p.Start/2
	}
	return 7 + p.Start
}

// uuid is always the same for the same parts, as the driver's are.
func uuid(parts ...any) string {
	h := sha256.Sum256([]byte(fmt.Sprint(parts...)))
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// Name of the node.
func (m *Machine) Name() string { return m.spec.Name }

// Product as GFD says it.
func (m *Machine) Product() string { return m.spec.Product }

// Model of the cards.
func (m *Machine) Model() gpu.Model { return m.model }

// Table of the product's MIG profiles; nil without MIG.
func (m *Machine) Table() *mig.Table { return m.table }

// Cards returns a copy of all cards.
func (m *Machine) Cards() []Card {
	out := make([]Card, len(m.cards))
	for i, c := range m.cards {
		c.Instances = append([]Instance(nil), c.Instances...)
		out[i] = c
	}
	return out
}
