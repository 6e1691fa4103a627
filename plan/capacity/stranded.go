package capacity

import (
	"cmp"
	"slices"
	"strings"
)

// Loss is slices of one model in one pool that nobody holds and that serve
// nobody as things are, for one cause.
type Loss struct {
	State       State // Fragmented, Stranded, Cordoned or Unready
	Cause       Cause // of the first two
	Pool, Model string
	GPUs        int // that have such parts
	Size        Size
	Example     string // a GPU, "n1/0"
}

// Stranded returns the losses by state, cause, pool and model. What is sick, being
// cut, coming up or unknown is no loss of this kind: look for it in the Supply.
func (sv *Survey) Stranded() []Loss {
	type key struct {
		state       State
		cause       Cause
		pool, model string
	}
	index := map[key]int{}
	var out []Loss
	for i := range sv.GPUs {
		c := &sv.GPUs[i]
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
				out[row].GPUs++
			}
		}
	}
	slices.SortFunc(out, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Cause, b.Cause), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Model, b.Model))
	})
	return out
}
