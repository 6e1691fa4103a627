package capacity

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu"
)

// Level is how finely supply is counted.
type Level uint8

// Levels.
const (
	ByModel Level = iota
	ByPool        // by pool and model
	ByNode        // by pool, node and model
)

// Supply is the GPUs of one model, in a pool or on a node.
type Supply struct {
	Pool, Node, Model string
	GPUs              int
	// InState counts the GPUs by their own state: Free for those in service.
	InState [NumStates]int
	// Healthy and Sick GPUs; a GPU of unknown health is neither.
	Healthy, Sick int
	// Size of the parts, by state. They add up to GPUs exactly.
	Size [NumStates]Size
	// Upcoming is GPUs of requested nodes without an object. They are not among
	// GPUs.
	Upcoming int
}

// Supply counts GPUs and parts, sorted by pool, node and model.
func (sv *Survey) Supply(l Level) []Supply {
	type key struct{ pool, node, model string }
	index := map[key]int{}
	var out []Supply
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
	for i := range sv.GPUs {
		c := &sv.GPUs[i]
		row(c.Pool, c.Node, c.Model).add(c)
	}
	for _, u := range sv.Upcoming {
		row(u.Pool, "", u.Model).Upcoming += u.GPUs
	}
	slices.SortFunc(out, func(a, b Supply) int {
		return cmp.Or(strings.Compare(a.Pool, b.Pool), strings.Compare(a.Node, b.Node), strings.Compare(a.Model, b.Model))
	})
	return out
}

func (s *Supply) add(c *GPU) {
	s.GPUs++
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
