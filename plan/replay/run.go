package replay

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/plan/pack"
)

// typicalCover is the share of the list that typical shapes cover: the
// published procedure's, for FGD and for fragmentation. Our policy gets every
// shape: the rare ones are the large ones, and without them 6 % of the
// requested GPUs would be left out. docs/replay.md has FGD's result with all of
// them.
const typicalCover = 0.95

// placer is one policy on one fleet; false for a request that fits nowhere.
type placer func(a pack.Request) bool

// policies by name. Each makes a placer for an empty fleet.
var policies = map[string]func(w *World, t pack.Typical, seed int) (*pack.Fleet, placer){
	"ours": func(w *World, _ pack.Typical, _ int) (*pack.Fleet, placer) {
		return chosen(w, pack.NewExpect(pack.NewTypical(w.requests, 1), w.nodes))
	},
	"fgd": func(w *World, t pack.Typical, _ int) (*pack.Fleet, placer) { return chosen(w, pack.FGD{Typical: t}) },
	"bestfit": func(w *World, _ pack.Typical, _ int) (*pack.Fleet, placer) {
		return chosen(w, pack.NewBestFit(w.nodes))
	},
	"firstfit": func(w *World, _ pack.Typical, _ int) (*pack.Fleet, placer) { return chosen(w, pack.FirstFit{}) },
	"random": func(w *World, _ pack.Typical, seed int) (*pack.Fleet, placer) {
		f := pack.NewFleet(w.nodes, nil)
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		return f, func(a pack.Request) bool { _, ok := f.PlaceAny(a, r.IntN); return ok }
	},
}

func chosen(w *World, p pack.Policy) (*pack.Fleet, placer) {
	f := pack.NewFleet(w.nodes, p)
	return f, func(a pack.Request) bool { _, ok := f.Place(a); return ok }
}

// Policies returns the default policies, in the order of the table.
func Policies(asMIG bool) []string {
	if asMIG {
		return []string{"ours", "bestfit", "firstfit"}
	}
	return []string{"ours", "fgd", "bestfit", "random"}
}

// CheckPolicies returns an error that names the first unknown policy.
func CheckPolicies(names []string) error {
	for _, name := range names {
		if _, ok := policies[name]; !ok {
			known := make([]string, 0, len(policies))
			for k := range policies {
				known = append(known, k)
			}
			slices.Sort(known)
			return fmt.Errorf("policy %q: want %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// Outcome is the result of one replay. Allocation and fragmentation are percent
// of all GPUs.
type Outcome struct {
	At100, AtEnd  float64 // allocated when 100 % of the capacity had arrived, and at the end
	Fragmentation float64 // free and of no use to the typical pod, when 100 % had arrived
	Placed        int     // pods
	Skipped       int     // pods that fit nowhere
}

// run replays w once. Precondition: policy is known.
func (w *World) run(policy string, seed int, inflation float64) Outcome {
	t := pack.NewTypical(w.requests, typicalCover)
	fleet, place := policies[policy](w, t, seed)
	var o Outcome
	arrived, passed := 0, false
	for _, i := range w.arrivals(seed, inflation) {
		arrived += w.sizes[i]
		if place(w.requests[i]) {
			o.Placed++
		} else {
			o.Skipped++
		}
		if !passed && arrived >= w.capacity {
			passed = true
			o.At100, o.Fragmentation = w.allocated(fleet), w.fragmentation(fleet, t)
		}
	}
	o.AtEnd = w.allocated(fleet)
	return o
}

func (w *World) allocated(f *pack.Fleet) float64 {
	return 100 * float64(w.capacity-f.Free()) / float64(w.capacity)
}

func (w *World) fragmentation(f *pack.Fleet, t pack.Typical) float64 {
	sum := 0.0
	f.Each(func(n pack.Node, nodes int) { sum += t.Fragmentation(n) * float64(nodes) })
	return 100 * sum / float64(w.capacity)
}
