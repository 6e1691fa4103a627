package pack

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Expect is our policy: of all placements it takes the one that leaves the
// fewest GPUs unused in the end. It knows the typical demand and the models of
// the fleet, sees one request at a time and moves nothing.
//
// The cost of a placement is, in thousandths of a GPU, the sum of
//
//   - how much more of the node's GPUs is expected to stay free for good. That
//     is not the share of requests that do not fit now, as in a fragmentation
//     gradient: a node with 20 cores and four free GPUs fits nearly every
//     request and will still strand two GPUs. So demand is added to the node,
//     before and after, until nothing more fits, several times, and what stays
//     free is averaged. That one number covers cores that run out before GPUs,
//     GPUs with remainders that no request fits, and requests that fit such a
//     remainder exactly.
//   - the loss to requests for several GPUs at once. They are rare and fit only
//     empty nodes, so a node that is filled does not show their loss: the
//     fragmentation gradient for these requests alone, by the GPUs they request.
//   - the loss to requests that are restricted to a model. GPUs of a model that
//     restricted demand will use completely cost an unrestricted request their
//     full size; GPUs that it will not use cost nothing.
//
// and a little for what stays free on the node, so that among nearly equal
// placements the fuller node is taken. An Expect caches its results, and is not
// safe for concurrent use.
type Expect struct {
	shapes   []shape
	onGPU    []Request // the GPU part of shapes, each once; CPU and the rest are left out
	streams  [][]int   // of shapes, in the order of arrival
	outlooks map[*Geometry]outlook
	several  Typical     // requests for several GPUs, by GPU
	reserve  [64]float64 // by model: the share of it that restricted requests will use
	tie      BestFit
	left     map[string]float64
	gpus     []GPU    // scratch
	alive    []uint64 // scratch
	fits     []uint64 // scratch
	free     []bool   // scratch, by onGPU
}

const (
	streams      = 32  // more make the estimate smoother, at proportional cost
	streamLength = 160 // enough to fill eight GPUs with what fits them last
	// severalWeight keeps the second term from outweighing the first: most of the
	// GPUs it counts as lost serve smaller requests in the end. At 0.3 requests
	// for many GPUs do worse than under FGD, at 1.5 smaller ones lose their gain.
	severalWeight = 0.5
	tieWeight     = 30
	maxCached     = 1 << 17 // values kept: bounds memory in a long replay
)

// shape is a Request prepared for streams.
type shape struct {
	Request
	whole, instance bool
	onGPU           int // index into Expect.onGPU
}

// outlook is an Outlook and its profile of each shape, -1 for none.
type outlook struct {
	*Outlook
	profile []int
}

// NewExpect returns the policy for a demand and the empty nodes it will be
// placed on.
func NewExpect(t Typical, nodes []Node) *Expect {
	size := sizes(t, nodes)
	t = slices.Clone(t)
	slices.SortFunc(t, func(a, b Share) int {
		return cmp.Or(cmp.Compare(size[a.Ask], size[b.Ask]), a.Ask.Compare(b.Ask))
	})
	p := &Expect{outlooks: map[*Geometry]outlook{}, tie: NewBestFit(nodes), left: map[string]float64{}}
	demand := map[mig.Profile]float64{}
	for _, s := range t {
		p.shapes = append(p.shapes, shape{s.Ask, s.Ask.whole(), s.Ask.Profile != (mig.Profile{}), p.gpusOf(s.Ask)})
		demand[s.Ask.Profile] += s.Share
	}
	for _, n := range nodes {
		if _, known := p.outlooks[n.Geometry]; n.Geometry != nil && !known {
			p.outlooks[n.Geometry] = newOutlook(n.Geometry, demand, t)
		}
	}
	p.streams = t.streams()
	byGPU := t.byGPU(size)
	p.several, p.reserve = byGPU.several(), byGPU.reserve(nodes)
	words := len(t)/64 + 1
	p.alive, p.fits = make([]uint64, words), make([]uint64, words)
	return p
}

// gpusOf returns the index of a's GPU part.
func (p *Expect) gpusOf(a Request) int {
	a = Request{GPUs: a.GPUs, Part: a.Part, Profile: a.Profile}
	k := slices.Index(p.onGPU, a)
	if k < 0 {
		k = len(p.onGPU)
		p.onGPU = append(p.onGPU, a)
	}
	return k
}

func newOutlook(c *Geometry, demand map[mig.Profile]float64, t Typical) outlook {
	o := outlook{NewOutlook(c, demand), make([]int, len(t))}
	for i, s := range t {
		o.profile[i] = -1
		if k, ok := c.index[s.Ask.Profile]; ok {
			o.profile[i] = k
		}
	}
	return o
}

// streams samples demand. At each position the streams together contain every
// part of the demand (t is sorted) in its share, so that few suffice. They are
// the same each time.
func (t Typical) streams() [][]int {
	if len(t) == 0 {
		return nil
	}
	upTo := make([]float64, len(t))
	sum := 0.0
	for i, s := range t {
		sum += s.Share
		upTo[i] = sum
	}
	r := rand.New(rand.NewPCG(1, 2))
	out := make([][]int, streams)
	for range streamLength {
		for i, stratum := range r.Perm(streams) {
			x := (float64(stratum) + r.Float64()) / streams * sum
			k, _ := slices.BinarySearch(upTo, x)
			out[i] = append(out[i], min(k, len(t)-1))
		}
	}
	return out
}

// sizes are what the requests of t take of a GPU on some node where they fit,
// in thousandths.
func sizes(t Typical, nodes []Node) map[Request]int {
	out := map[Request]int{}
	for _, s := range t {
		for _, n := range nodes {
			if n.Fits(s.Ask) {
				out[s.Ask] = n.Size(s.Ask)
				break
			}
		}
	}
	return out
}

// byGPU weighs t by the GPUs requested instead of the number of requests.
func (t Typical) byGPU(size map[Request]int) Typical {
	out := slices.Clone(t)
	sum := 0.0
	for i := range out {
		out[i].Share *= float64(size[out[i].Ask])
		sum += out[i].Share
	}
	for i := range out {
		if sum > 0 {
			out[i].Share /= sum
		}
	}
	return out
}

// several are the requests for more than one GPU.
func (t Typical) several() Typical {
	return slices.DeleteFunc(slices.Clone(t), func(s Share) bool { return s.Ask.GPUs < 2 })
}

// reserve returns for each model the share of its GPUs that restricted requests
// (t by GPU) will use, for as much demand as the fleet's capacity. A request
// with several models is spread over their GPUs evenly.
func (t Typical) reserve(nodes []Node) [64]float64 {
	var supply, restricted [64]float64
	total := 0.0
	for _, n := range nodes {
		supply[n.Model] += float64(n.Free())
		total += float64(n.Free())
	}
	for _, s := range t {
		among := 0.0
		for m := range supply {
			if s.Ask.Models>>m&1 != 0 {
				among += supply[m]
			}
		}
		for m := range supply {
			if s.Ask.Models>>m&1 != 0 && supply[m] > 0 {
				restricted[m] += s.Share * total / among
			}
		}
	}
	for m := range restricted {
		restricted[m] = min(1, restricted[m])
	}
	return restricted
}

// Weigh implements Policy.
func (p *Expect) Weigh(n Node, a Request) Choice {
	before := p.value(n)
	best := Choice{Cost: math.Inf(1)}
	for _, s := range n.Spots(a) {
		after := n.Take(a, s)
		if c := p.value(after) - before; c < best.Cost {
			best = Choice{s, c}
		}
	}
	gpu := n.Size(a)
	best.Cost += p.reserve[n.Model]*float64(gpu) + tieWeight*p.tie.score(n.CPU-a.CPU, n.Free()-gpu)
	return best
}

func (p *Expect) value(n Node) float64 {
	key := n.key()
	v, known := p.left[key]
	if !known {
		v = p.stranded(n) + severalWeight*p.several.Fragmentation(n)
		if len(p.left) >= maxCached {
			clear(p.left)
		}
		p.left[key] = v
	}
	return v
}

// stranded is how much of n's GPUs is still free, on average, when demand has
// arrived until nothing fits, in thousandths.
func (p *Expect) stranded(n Node) float64 {
	free := n.Free()
	if free == 0 {
		return 0
	}
	onGPUs := p.fitting(n)
	if onGPUs == 0 {
		return float64(free)
	}
	sum := 0
	for _, stream := range p.streams {
		sum += p.fill(n, stream, onGPUs)
	}
	return float64(sum) / float64(len(p.streams))
}

// fitting records which shapes fit n and returns how many of those request
// GPUs.
func (p *Expect) fitting(n Node) int {
	gpus := Node{GPUs: n.GPUs, Geometry: n.Geometry}
	p.free = p.free[:0]
	for _, a := range p.onGPU {
		p.free = append(p.free, gpus.Fits(a))
	}
	clear(p.fits)
	onGPUs := 0
	for k := range p.shapes {
		s := &p.shapes[k]
		if s.CPU > n.CPU || s.Memory > n.Memory || !p.free[s.onGPU] || s.Models != 0 && s.Models>>n.Model&1 == 0 {
			continue
		}
		p.fits[k/64] |= 1 << (k % 64)
		if s.GPUs > 0 {
			onGPUs++
		}
	}
	return onGPUs
}

// fill adds one stream to n and returns what stays free. A request that did not
// fit once does not fit later; it ends when none that fits requests GPUs.
func (p *Expect) fill(n Node, stream []int, onGPUs int) int {
	p.gpus = append(p.gpus[:0], n.GPUs...)
	copy(p.alive, p.fits)
	left := Node{Model: n.Model, CPU: n.CPU, Memory: n.Memory, GPUs: p.gpus, Geometry: n.Geometry}
	for _, k := range stream {
		if p.alive[k/64]>>(k%64)&1 == 0 {
			continue
		}
		s := &p.shapes[k]
		if s.CPU <= left.CPU && s.Memory <= left.Memory && (s.GPUs == 0 || p.takeGPUs(&left, k)) {
			left.CPU -= s.CPU
			left.Memory -= s.Memory
			continue
		}
		p.alive[k/64] &^= 1 << (k % 64)
		if s.GPUs > 0 {
			if onGPUs--; onGPUs == 0 {
				break
			}
		}
	}
	return left.Free()
}

// takeGPUs allocates shape k on n's GPUs, on the tightest that fit, unsorted
// and in place. It changes nothing when none does.
func (p *Expect) takeGPUs(n *Node, k int) bool {
	s := &p.shapes[k]
	switch {
	case s.whole:
		return n.takeWhole(s.GPUs)
	case s.instance:
		return p.takeInstance(n, k)
	default:
		return n.takePart(s.Part)
	}
}

func (n *Node) takeWhole(gpus int) bool {
	free := 0
	for _, c := range n.GPUs {
		if n.untouched(c) {
			free++
		}
	}
	if free < gpus {
		return false
	}
	for i, c := range n.GPUs {
		if gpus > 0 && n.untouched(c) {
			n.GPUs[i] = n.used()
			gpus--
		}
	}
	return true
}

func (n *Node) takePart(part Part) bool {
	best := -1
	for i, c := range n.GPUs {
		if c.holds(part) && (best < 0 || c.compare(n.GPUs[best]) < 0) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	n.GPUs[best].Core -= part.Core
	n.GPUs[best].Memory -= part.Memory
	return true
}

func (p *Expect) takeInstance(n *Node, k int) bool {
	o := p.outlooks[n.Geometry]
	if o.Outlook == nil || o.profile[k] < 0 {
		return false
	}
	device, to, least := -1, 0, math.Inf(1)
	for i, c := range n.GPUs {
		b := o.best[c.State][o.profile[k]]
		if b < 0 {
			continue
		}
		next := o.geometry.states[c.State].steps[o.profile[k]][b].To
		if grown := o.cost[next] - o.cost[c.State]; grown < least {
			device, to, least = i, next, grown
		}
	}
	if device < 0 {
		return false
	}
	n.GPUs[device].State = to
	return true
}
