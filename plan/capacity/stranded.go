package capacity

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Loss is slices of one model in one pool that nobody holds and that serve
// nobody as things are, for one cause.
type Loss struct {
	State       State // Fragmented, Stranded, Cordoned or Unready
	Cause       Cause // of the first two
	Pool, Model string
	Cards       int // that have such parts
	Size        Size
	Example     string // a card, "n1/0"
}

// Stranded returns the losses by state, cause, pool and model. What is sick, being
// cut, coming up or unknown is no loss of this kind: look for it in the Supply.
func (sv *Survey) Stranded() StrandedTable {
	type key struct {
		state       State
		cause       Cause
		pool, model string
	}
	index := map[key]int{}
	var out StrandedTable
	for i := range sv.Cards {
		c := &sv.Cards[i]
		seen := map[key]bool{}
		for k := range c.Parts {
			p := &c.Parts[k]
			if p.Holder != "" || p.State != Fragmented && p.State != Stranded && p.State != Cordoned && p.State != Unready {
				continue
			}
			at := key{p.State, p.Cause, c.Pool, c.Model}
			row, ok := index[at]
			if !ok {
				row = len(out)
				index[at] = row
				out = append(out, Loss{State: p.State, Cause: p.Cause, Pool: c.Pool, Model: c.Model, Example: c.Name()})
			}
			out[row].Size = out[row].Size.plus(p.Size)
			if !seen[at] {
				seen[at] = true
				out[row].Cards++
			}
		}
	}
	slices.SortFunc(out, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Cause, b.Cause), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Model, b.Model))
	})
	return out
}

// StrandedTable is the answer of Survey.Stranded.
type StrandedTable []Loss

// String returns the table, with compute and memory slices of the model ("3/4").
func (rows StrandedTable) String() string {
	t := newTable(5, "state", "cause", "pool", "model", "example", "cards", "slices")
	for _, r := range rows {
		t.add(r.State.String(), r.Cause.String(), r.Pool, r.Model, r.Example, strconv.Itoa(r.Cards), r.Size.slices(r.Model))
	}
	return t.String()
}
