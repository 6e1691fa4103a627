package pack

import "math"

// FirstFit takes the first node and the first place on it.
type FirstFit struct{}

// Weigh implements Policy.
func (FirstFit) Weigh(n Node, a Request) Choice { return Choice{Spot: n.Spots(a)[0]} }

// BestFit takes the node with the least free capacity, CPU and GPU weighed
// equally, and on it the GPU with the least.
type BestFit struct {
	MaxCPU, MaxGPU int // of the largest node, in thousandths
}

// NewBestFit measures nodes, which are empty.
func NewBestFit(nodes []Node) BestFit {
	p := BestFit{1, 1}
	for _, n := range nodes {
		p.MaxCPU, p.MaxGPU = max(p.MaxCPU, n.CPU), max(p.MaxGPU, n.Free())
	}
	return p
}

// Weigh implements Policy.
func (p BestFit) Weigh(n Node, a Request) Choice {
	spots := n.Spots(a)
	best := spots[0]
	for _, s := range spots {
		if a.GPUs > 0 && n.free(n.GPUs[s.GPU]) < n.free(n.GPUs[best.GPU]) {
			best = s
		}
	}
	after := n.Take(a, best)
	return Choice{best, p.score(after.CPU, after.Free())}
}

// score is 0 for a full node and 1 for the largest empty one.
func (p BestFit) score(cpu, gpu int) float64 {
	return (float64(cpu)/float64(p.MaxCPU) + float64(gpu)/float64(p.MaxGPU)) / 2
}

// FGD is fragmentation gradient descent as published: the placement that adds
// least to what the typical request cannot use, rounded to a hundredth of a
// sigmoid. The rounding leaves many ties, which go to the first node; the
// published figures depend on it.
type FGD struct{ Typical Typical }

// Weigh implements Policy.
func (p FGD) Weigh(n Node, a Request) Choice {
	before := p.Typical.Fragmentation(n)
	return cheapest(n, a, func(after Node) float64 {
		grown := p.Typical.Fragmentation(after) - before
		return -math.Floor(100 / (1 + math.Exp(grown/1000)))
	})
}

// cheapest weighs n after each way to place a on it.
func cheapest(n Node, a Request, cost func(after Node) float64) Choice {
	best := Choice{Cost: math.Inf(1)}
	for _, s := range n.Spots(a) {
		if c := cost(n.Take(a, s)); c < best.Cost {
			best = Choice{s, c}
		}
	}
	return best
}
