package replay

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan/pack"
)

// World is a node list and a pod list, ready to be replayed. It does not
// change and may be shared.
type World struct {
	nodes    []pack.Node
	asks     []pack.Ask
	sizes    []int // what each ask takes of GPUs, in thousandths
	capacity int   // of all GPUs, in thousandths
	mig      bool
}

// A pod that names only models no node has fits nowhere, but is there.
const noPod = 63

// NewWorld puts lists together. With mig set every GPU is an H100-80GB that may
// be repartitioned, and a fraction asks for the smallest instance that holds it. It is an
// error when there is nothing to measure: no GPUs, or no pod that asks for
// any.
func NewWorld(nodes []Node, pods []Pod, asMIG bool) (*World, error) {
	w := &World{mig: asMIG}
	var repartitions *pack.Repartitions
	if asMIG {
		table, ok := mig.ForModel(migModel)
		if !ok {
			return nil, fmt.Errorf("no MIG table for %s", migModel)
		}
		repartitions = pack.NewRepartitions(table)
	}
	models := map[string]int{}
	for _, n := range nodes {
		if _, known := models[n.Model]; !known {
			models[n.Model] = len(models)
		}
		if len(models) > noPod {
			return nil, fmt.Errorf("more than %d GPU models", noPod)
		}
		node := pack.NewNode(models[n.Model], n.CPU, n.Memory, n.GPUs, repartitions)
		w.nodes = append(w.nodes, node)
		w.capacity += node.Free()
	}
	if w.capacity == 0 {
		return nil, fmt.Errorf("%d nodes without a GPU: nothing to measure", len(nodes))
	}
	asked := 0
	for _, p := range pods {
		a, size := w.ask(p, models, repartitions)
		w.asks = append(w.asks, a)
		w.sizes = append(w.sizes, size)
		asked += size
	}
	if asked == 0 {
		return nil, fmt.Errorf("%d pods, none of which asks for a GPU: nothing to measure", len(pods))
	}
	return w, nil
}

// ask returns what p asks for and how much of GPUs that is.
func (w *World) ask(p Pod, models map[string]int, repartitions *pack.Repartitions) (pack.Ask, int) {
	a := pack.Ask{CPU: p.CPU, Memory: p.Memory, GPUs: p.GPUs}
	for _, m := range p.Models {
		bit, known := models[m]
		if !known {
			bit = noPod
		}
		a.Models |= 1 << bit
	}
	if p.GPUs != 1 || p.Milli == pack.Whole {
		return a, p.GPU()
	}
	if repartitions == nil {
		a.Part = pack.Part{Core: p.Milli}
		return a, p.Milli
	}
	profile, whole := smallest(repartitions.Table(), p.Milli)
	if whole {
		return a, pack.Whole
	}
	a.Profile = profile
	return a, profile.Compute * pack.Whole / repartitions.Table().ComputeSlices()
}

// migModel stands for the seven-slice GPUs, A100 to B300: their placements are
// the same.
const migModel = "H100-80GB"

// smallest is the profile with the fewest compute, then memory slices that is at
// least milli thousandths of a GPU in both, whole where only the GPU itself is.
func smallest(t *mig.Table, milli int) (p mig.Profile, whole bool) {
	for _, p := range t.Profiles() {
		if p.Attrs == 0 && p.Compute*pack.Whole >= milli*t.ComputeSlices() && p.Memory*pack.Whole >= milli*t.MemorySlices() {
			return p, p.Compute == t.ComputeSlices()
		}
	}
	return mig.Profile{}, true
}
