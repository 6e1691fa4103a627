package replay

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan/pack"
)

// World is a node list and a pod list, ready to be replayed. It is immutable
// and may be shared.
type World struct {
	nodes    []pack.Node
	requests []pack.Request
	sizes    []int // of each request, in thousandths of a GPU
	capacity int   // of all GPUs, in thousandths
	mig      bool
}

// A pod that names only models no node has fits nowhere, but counts.
const noPod = 63

// NewWorld combines the lists. With asMIG every GPU is an H100-80GB in MIG
// mode, and a fraction requests the smallest instance that holds it. It is an
// error when there is nothing to measure: no GPUs, or no pod that requests any.
func NewWorld(nodes []Node, pods []Pod, asMIG bool) (*World, error) {
	w := &World{mig: asMIG}
	var geometry *pack.Geometry
	if asMIG {
		table, ok := mig.ForModel(migModel)
		if !ok {
			return nil, fmt.Errorf("no MIG table for %s", migModel)
		}
		geometry = pack.NewGeometry(table)
	}
	models := map[string]int{}
	for _, n := range nodes {
		if _, known := models[n.Model]; !known {
			models[n.Model] = len(models)
		}
		if len(models) > noPod {
			return nil, fmt.Errorf("more than %d GPU models", noPod)
		}
		node := pack.NewNode(models[n.Model], n.CPU, n.Memory, n.GPUs, geometry)
		w.nodes = append(w.nodes, node)
		w.capacity += node.Free()
	}
	if w.capacity == 0 {
		return nil, fmt.Errorf("%d nodes without a GPU: nothing to measure", len(nodes))
	}
	requested := 0
	for _, p := range pods {
		a, size := w.request(p, models, geometry)
		w.requests = append(w.requests, a)
		w.sizes = append(w.sizes, size)
		requested += size
	}
	if requested == 0 {
		return nil, fmt.Errorf("%d pods, none of which requests a GPU: nothing to measure", len(pods))
	}
	return w, nil
}

// request returns p's request and its size in thousandths of a GPU.
func (w *World) request(p Pod, models map[string]int, geometry *pack.Geometry) (pack.Request, int) {
	a := pack.Request{CPU: p.CPU, Memory: p.Memory, GPUs: p.GPUs}
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
	if geometry == nil {
		a.Part = pack.Part{Core: p.Milli}
		return a, p.Milli
	}
	profile, whole := smallest(geometry.Table(), p.Milli)
	if whole {
		return a, pack.Whole
	}
	a.Profile = profile
	return a, profile.Compute * pack.Whole / geometry.Table().ComputeSlices()
}

// migModel stands for the seven-slice GPUs, A100 to B300: their placements are
// the same.
const migModel = "H100-80GB"

// smallest is the profile with the fewest compute, then memory slices that is
// at least milli thousandths of a GPU in both; whole where only the full GPU
// is.
func smallest(t *mig.Table, milli int) (p mig.Profile, whole bool) {
	for _, p := range t.Profiles() {
		if p.Attrs == 0 && p.Compute*pack.Whole >= milli*t.ComputeSlices() && p.Memory*pack.Whole >= milli*t.MemorySlices() {
			return p, p.Compute == t.ComputeSlices()
		}
	}
	return mig.Profile{}, true
}
