package capacity

import (
	"cmp"
	"slices"
	"strings"
)

// Loss is free slices of one model in one pool that no pending pod can use, for
// one cause.
type Loss struct {
	State       State // Fragmented, Stranded, Cordoned or Unready
	Cause       Cause // of the first two
	Pool, Model string
	GPUs        int // that have such parts
	Size        Size
	Example     string // a GPU, "n1/0"
}

// Stranded returns the losses by state, cause, pool and model. What is sick,
// being repartitioned, booting or unknown is no such loss; Supply has it.
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
			if p.AllocatedTo != "" || p.State != Fragmented && p.State != Stranded && p.State != Cordoned && p.State != Unready {
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
