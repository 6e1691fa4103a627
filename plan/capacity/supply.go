package capacity

import (
	"cmp"
	"slices"
	"strings"
)

// Supply is the GPUs of one model in a pool: the size of their parts, by state,
// which add up to the GPUs exactly.
type Supply struct {
	Pool, Model string
	Size        [NumStates]Size
}

// Supply counts parts, sorted by pool and model.
func (sv *Survey) Supply() []Supply {
	type key struct{ pool, model string }
	index := map[key]int{}
	var out []Supply
	for i := range sv.GPUs {
		c := &sv.GPUs[i]
		row, ok := index[key{c.Pool, c.Model}]
		if !ok {
			row = len(out)
			index[key{c.Pool, c.Model}] = row
			out = append(out, Supply{Pool: c.Pool, Model: c.Model})
		}
		for _, p := range c.Parts {
			out[row].Size[p.State] = out[row].Size[p.State].plus(p.Size)
		}
	}
	slices.SortFunc(out, func(a, b Supply) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), strings.Compare(a.Model, b.Model))
	})
	return out
}

// Loss is free slices of one model in one pool that no pending pod can use, for
// one cause.
type Loss struct {
	Cause       Cause
	Pool, Model string
	Size        Size
}

// Stranded returns what is Fragmented or Stranded by cause, pool and model.
func (sv *Survey) Stranded() []Loss {
	type key struct {
		cause       Cause
		pool, model string
	}
	index := map[key]int{}
	var out []Loss
	for i := range sv.GPUs {
		c := &sv.GPUs[i]
		for k := range c.Parts {
			p := &c.Parts[k]
			if p.Cause == NoCause {
				continue
			}
			at := key{p.Cause, c.Pool, c.Model}
			row, ok := index[at]
			if !ok {
				row = len(out)
				index[at] = row
				out = append(out, Loss{Cause: p.Cause, Pool: c.Pool, Model: c.Model})
			}
			out[row].Size = out[row].Size.plus(p.Size)
		}
	}
	slices.SortFunc(out, func(a, b Loss) int {
		return cmp.Or(cmp.Compare(a.Cause, b.Cause), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Model, b.Model))
	})
	return out
}
