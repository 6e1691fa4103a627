package replay

import (
	"math/rand/v2"
	"slices"
)

// variant is a workload derived from the recorded one after the lists of Weng
// et al.: other shares of the requested GPUs by fractions (gpushare) or by pods
// with several GPUs (multigpu), other numbers of pods without GPU (cpu), and a
// share of pods that name models (gpuspec).
type variant struct {
	name string
	make func(r *rand.Rand, nodes []Node, pods []Pod) []Pod
}

var variants = []variant{
	{"default", func(_ *rand.Rand, _ []Node, pods []Pod) []Pod { return pods }},
	{"gpushare40", share(fraction, 0.4)},
	{"gpushare60", share(fraction, 0.6)},
	{"gpushare80", share(fraction, 0.8)},
	{"gpushare100", share(fraction, 1)},
	{"multigpu20", share(several, 0.2)},
	{"multigpu30", share(several, 0.3)},
	{"multigpu40", share(several, 0.4)},
	{"multigpu50", share(several, 0.5)},
	{"gpuspec10", restricted(0.10)},
	{"gpuspec20", restricted(0.20)},
	{"gpuspec25", restricted(0.25)},
	{"gpuspec33", restricted(0.33)},
	{"cpu050", cpuPods(0.5)},
	{"cpu200", cpuPods(2)},
	{"cpu250", cpuPods(2.5)},
}

// of returns the variant of a list; the same each time.
func (v variant) of(nodes []Node, pods []Pod) []Pod {
	return v.make(rand.New(rand.NewPCG(7, 7)), nodes, pods)
}

func fraction(p Pod) bool { return p.GPUs == 1 && p.Milli < 1000 }
func several(p Pod) bool  { return p.GPUs > 1 }
func noGPU(p Pod) bool    { return p.GPUs == 0 }

// share draws pods from the list so that a kind requests a share of the GPUs,
// and all together as much as before.
func share(kind func(Pod) bool, of float64) func(*rand.Rand, []Node, []Pod) []Pod {
	return func(r *rand.Rand, _ []Node, pods []Pod) []Pod {
		total := 0
		for _, p := range pods {
			total += p.GPU()
		}
		out := only(pods, noGPU)
		out = append(out, draw(r, only(pods, kind), of*float64(total))...)
		others := func(p Pod) bool { return !noGPU(p) && !kind(p) }
		return append(out, draw(r, only(pods, others), (1-of)*float64(total))...)
	}
}

func only(pods []Pod, kind func(Pod) bool) []Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return !kind(p) })
}

// draw takes pods at random until they request so much GPU.
func draw(r *rand.Rand, pods []Pod, gpu float64) []Pod {
	var out []Pod
	for sum := 0; float64(sum) < gpu; sum += out[len(out)-1].GPU() {
		out = append(out, pods[r.IntN(len(pods))])
	}
	return out
}

// cpuPods draws times as many pods without GPU.
func cpuPods(times float64) func(*rand.Rand, []Node, []Pod) []Pod {
	return func(r *rand.Rand, _ []Node, pods []Pod) []Pod {
		out := only(pods, func(p Pod) bool { return !noGPU(p) })
		cpu := only(pods, noGPU)
		for range int(times * float64(len(cpu))) {
			out = append(out, cpu[r.IntN(len(cpu))])
		}
		return out
	}
}

// restricted has a share of the GPU pods name models, with the weights of the
// trace's own gpuspec lists, where an empty node fits.
func restricted(of float64) func(*rand.Rand, []Node, []Pod) []Pod {
	specs := []struct {
		weight int
		models []string
	}{
		{46, []string{"T4"}}, {22, []string{"G2"}}, {13, []string{"P100"}}, {8, []string{"V100M16", "V100M32"}},
		{5, []string{"P100", "V100M16", "V100M32"}}, {3, []string{"G2", "P100", "T4", "V100M16", "V100M32"}}, {3, []string{"G3"}},
	}
	return func(r *rand.Rand, nodes []Node, pods []Pod) []Pod {
		out := slices.Clone(pods)
		for i, p := range out {
			if noGPU(p) || r.Float64() >= of {
				continue
			}
			k := r.IntN(100)
			for _, s := range specs {
				if k -= s.weight; k < 0 {
					p.Models = s.models
					break
				}
			}
			if slices.ContainsFunc(nodes, func(n Node) bool { return fits(p, n) }) {
				out[i] = p
			}
		}
		return out
	}
}

func fits(p Pod, n Node) bool {
	return p.CPU <= n.CPU && p.Memory <= n.Memory && p.GPUs <= n.GPUs && slices.Contains(p.Models, n.Model)
}
