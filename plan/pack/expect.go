package pack

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Expect is our policy: of all placements it takes the one that leaves the
// least GPU empty in the end. It knows the typical demand and what the fleet
// is made of, sees one ask at a time and moves nothing.
//
// What a placement costs is, in thousandths of a GPU, the sum of
//
//   - how much more of the node's GPUs is expected to stay empty for good. That is not
//     the share of asks that do not fit now, as a fragmentation gradient
//     counts: a node with 20 cores and four free GPUs fits nearly every ask and
//     will still strand two GPUs. So demand is let come to the node, before and
//     after, until nothing more fits, several times over, and what is left is
//     averaged. Cores that run out before GPUs do, GPUs that leave remainders
//     nobody asks for, and asks that fit such a remainder exactly all show up in
//     that one number.
//   - what is lost to asks for several GPUs at once. They come seldom and
//     only empty nodes will do, so a node by itself, filled by what comes, does
//     not miss them: the fragmentation gradient for these asks alone, by the
//     GPU they bring.
//   - what is taken from asks that can go nowhere else. GPUs of a model that
//     restricted demand will want all of cost an unrestricted ask their full
//     size, GPUs that none needs cost nothing.
//
// and a little for what stays free on the node, so that among placements that
// are as good as equal the fuller node is taken. An Expect keeps what it has worked
// out, and is not for concurrent use.
type Expect struct {
	shapes   []shape
	onGPU    []Ask   // what shapes want of GPUs, each once; CPU and the rest are left out
	streams  [][]int // of shapes, in the order of arrival
	outlooks map[*Repartitions]outlook
	several  Typical     // asks for several GPUs, by GPU
	reserve  [64]float64 // by model: the part of it that restricted asks will want
	tie      BestFit
	left     map[string]float64
	gpus     []GPU    // scratch
	alive    []uint64 // scratch
	fits     []uint64 // scratch
	free     []bool   // scratch, by onGPU
}

const (
	streams      = 32  // more smooth the estimate, and cost time in proportion
	streamLength = 160 // enough to fill eight GPUs with what fits them last
	// severalWeight keeps the second term from outweighing the first: most of the
	// GPU it counts as lost goes to smaller asks in the end. At 0.3 asks for many
	// GPUs begin to come off worse than under FGD, at 1.5 the smaller ones lose
	// what foresight gained them.
	severalWeight = 0.5
	tieWeight     = 30
	remembered    = 1 << 17 // values kept, so that a long replay stays small
)

// shape is an Ask made ready for streams.
type shape struct {
	Ask
	whole, instance bool
	onGPU           int // index into Expect.onGPU
}

// outlook is an Outlook and its profile of each shape, -1 for none.
type outlook struct {
	*Outlook
	profile []int
}

// NewExpect returns the policy for a demand and the nodes it is to run on, when
// they are empty.
func NewExpect(t Typical, nodes []Node) *Expect {
	size := sizes(t, nodes)
	t = slices.Clone(t)
	slices.SortFunc(t, func(a, b Share) int {
		return cmp.Or(cmp.Compare(size[a.Ask], size[b.Ask]), a.Ask.Compare(b.Ask))
	})
	p := &Expect{outlooks: map[*Repartitions]outlook{}, tie: NewBestFit(nodes), left: map[string]float64{}}
	demand := map[mig.Profile]float64{}
	for _, s := range t {
		p.shapes = append(p.shapes, shape{s.Ask, s.Ask.whole(), s.Ask.Profile != (mig.Profile{}), p.gpusOf(s.Ask)})
		demand[s.Ask.Profile] += s.Share
	}
	for _, n := range nodes {
		if _, known := p.outlooks[n.Repartitions]; n.Repartitions != nil && !known {
			p.outlooks[n.Repartitions] = newOutlook(n.Repartitions, demand, t)
		}
	}
	p.streams = t.streams()
	byGPU := t.byGPU(size)
	p.several, p.reserve = byGPU.several(), byGPU.reserve(nodes)
	words := len(t)/64 + 1
	p.alive, p.fits = make([]uint64, words), make([]uint64, words)
	return p
}

// gpusOf returns the index of what a wants of GPUs.
func (p *Expect) gpusOf(a Ask) int {
	a = Ask{GPUs: a.GPUs, Part: a.Part, Profile: a.Profile}
	k := slices.Index(p.onGPU, a)
	if k < 0 {
		k = len(p.onGPU)
		p.onGPU = append(p.onGPU, a)
	}
	return k
}

func newOutlook(c *Repartitions, demand map[mig.Profile]float64, t Typical) outlook {
	o := outlook{NewOutlook(c, demand), make([]int, len(t))}
	for i, s := range t {
		o.profile[i] = -1
		if k, ok := c.index[s.Ask.Profile]; ok {
			o.profile[i] = k
		}
	}
	return o
}

// streams draws demand. At each position the streams together hold every part
// of the demand (t is sorted) in its share, so that a few say what otherwise
// many would have to. They are the same each time.
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

// sizes are what the asks of t take of a GPU on some node that has free for
// them, in thousandths.
func sizes(t Typical, nodes []Node) map[Ask]int {
	out := map[Ask]int{}
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

// byGPU weighs t by the GPU that asks bring instead of their number.
func (t Typical) byGPU(size map[Ask]int) Typical {
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

// several are the asks for more than one GPU.
func (t Typical) several() Typical {
	return slices.DeleteFunc(slices.Clone(t), func(s Share) bool { return s.Ask.GPUs < 2 })
}

// reserve says for each model what part of its GPUs will be wanted by asks
// that are restricted to it (t by GPU), should demand be as much as the fleet holds. An
// ask with several models is spread over their GPUs evenly.
func (t Typical) reserve(nodes []Node) [64]float64 {
	var supply, wanted [64]float64
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
				wanted[m] += s.Share * total / among
			}
		}
	}
	for m := range wanted {
		wanted[m] = min(1, wanted[m])
	}
	return wanted
}

// Weigh implements Policy.
func (p *Expect) Weigh(n Node, a Ask) Choice {
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
		if len(p.left) >= remembered {
			clear(p.left)
		}
		p.left[key] = v
	}
	return v
}

// stranded is how much of n's GPUs is still empty, on average, when demand has
// come until nothing fits, in thousandths.
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

// fitting notes which shapes fit n and returns how many of those want GPUs.
func (p *Expect) fitting(n Node) int {
	gpus := Node{GPUs: n.GPUs, Repartitions: n.Repartitions}
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

// fill lets one stream come to n and returns what it leaves. An ask that did
// not fit once does not fit later; when none of those for GPUs is left, that
// was it.
func (p *Expect) fill(n Node, stream []int, onGPUs int) int {
	p.gpus = append(p.gpus[:0], n.GPUs...)
	copy(p.alive, p.fits)
	left := Node{Model: n.Model, CPU: n.CPU, Memory: n.Memory, GPUs: p.gpus, Repartitions: n.Repartitions}
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

// takeGPUs puts shape k on n's GPUs, on the tightest that will do, unsorted and
// in place. It changes nothing when there is none.
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
	o := p.outlooks[n.Repartitions]
	if o.Outlook == nil || o.profile[k] < 0 {
		return false
	}
	device, to, least := -1, 0, math.Inf(1)
	for i, c := range n.GPUs {
		b := o.best[c.Cut][o.profile[k]]
		if b < 0 {
			continue
		}
		next := o.repartitions.states[c.Cut].steps[o.profile[k]][b].To
		if grown := o.cost[next] - o.cost[c.Cut]; grown < least {
			device, to, least = i, next, grown
		}
	}
	if device < 0 {
		return false
	}
	n.GPUs[device].Cut = to
	return true
}
