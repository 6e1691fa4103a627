package capacity

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu"
)

// Level says how finely supply is counted.
type Level uint8

// Levels.
const (
	ByModel Level = iota
	ByPool        // by pool and model
	ByNode        // by pool, node and model
)

// Supply is what there is of one model, in a pool or on a node.
type Supply struct {
	Pool, Node, Model string
	Cards             int
	// InState counts the cards by their own state: Free for those in service.
	InState [NumStates]int
	// Healthy and Sick cards; what nobody says anything about is neither.
	Healthy, Sick int
	// Size of the parts, by state. They add up to Cards exactly.
	Size [NumStates]Size
	// Upcoming is cards of nodes that were asked for and have no object yet. They
	// are not among Cards.
	Upcoming int
}

// Supply counts cards and parts, sorted by pool, node and model.
func (sv *Survey) Supply(l Level) SupplyTable {
	type key struct{ pool, node, model string }
	index := map[key]int{}
	var out SupplyTable
	row := func(pool, node, model string) *Supply {
		k := key{pool, node, model}
		switch l {
		case ByModel:
			k.pool, k.node = "", ""
		case ByPool:
			k.node = ""
		}
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, Supply{Pool: k.pool, Node: k.node, Model: k.model})
		}
		return &out[i]
	}
	for i := range sv.Cards {
		c := &sv.Cards[i]
		row(c.Pool, c.Node, c.Model).add(c)
	}
	for _, u := range sv.Upcoming {
		row(u.Pool, "", u.Model).Upcoming += u.Cards
	}
	slices.SortFunc(out, func(a, b Supply) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), strings.Compare(a.Node, b.Node), strings.Compare(a.Model, b.Model))
	})
	return out
}

func (s *Supply) add(c *Card) {
	s.Cards++
	s.InState[c.State]++
	switch c.Health {
	case gpu.Healthy:
		s.Healthy++
	case gpu.Sick:
		s.Sick++
	}
	for _, p := range c.Parts {
		s.Size[p.State] = s.Size[p.State].plus(p.Size)
	}
}

// SupplyTable is the answer of Survey.Supply.
type SupplyTable []Supply

// String returns the table: cards, those in service and those on their way, then for every state compute and memory
// slices of the model ("3/4"), "." for none.
func (rows SupplyTable) String() string {
	head := []string{"pool", "node", "model", "cards", "in service", "coming", "slices"}
	for s := range NumStates {
		head = append(head, s.String())
	}
	t := newTable(3, head...)
	for _, r := range rows {
		whole := Size{r.Cards * CardShares, r.Cards * CardShares}
		words := []string{r.Pool, r.Node, r.Model, strconv.Itoa(r.Cards), strconv.Itoa(r.InState[Free]), strconv.Itoa(r.Upcoming), whole.slices(r.Model)}
		for _, size := range r.Size {
			words = append(words, cell(size, r.Model))
		}
		t.add(words...)
	}
	return t.String()
}

func cell(size Size, model string) string {
	if size.zero() {
		return "."
	}
	return size.slices(model)
}
