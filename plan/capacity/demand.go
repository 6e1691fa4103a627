package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// Pending is the demand of pending pods of one reason and shape.
type Pending struct {
	Reason plan.Reason // of the plan's verdict; empty where the plan has none
	Shape  string      // of one pod, in short: "3g.40gb", "2", "0.5"; "unreadable"
	Pods   int
	// Size is that of all of them together. Readable is false for demand that
	// could not be read: its size is unknown, not zero.
	Size     Size
	Readable bool
}

// Pending returns the demand of pending pods by reason and shape, in that order.
// verdicts are those of the plan made from the same snapshot.
func (sv *Survey) Pending(verdicts []plan.Verdict) []Pending {
	reasons := map[string]plan.Reason{} // of pending pods: most run
	for _, p := range sv.pods {
		if p.Node == "" {
			reasons[p.Key()] = ""
		}
	}
	for i := range verdicts {
		v := &verdicts[i]
		if _, isPending := reasons[v.Subject]; isPending && v.Kind == plan.KindPod {
			reasons[v.Subject] = v.Reason
		}
	}
	rows := map[Pending]int{}
	var out []Pending
	for _, p := range sv.pods {
		if p.Node != "" {
			continue
		}
		key := Pending{Reason: reasons[p.Key()], Shape: "unreadable", Readable: p.Unreadable == ""}
		if key.Readable {
			key.Shape = sv.shape(p)
		}
		row, ok := rows[key]
		if !ok {
			row = len(out)
			rows[key] = row
			out = append(out, key)
		}
		out[row].Pods++
		if key.Readable {
			out[row].Size = out[row].Size.plus(sv.demandSize(p))
		}
	}
	slices.SortFunc(out, func(a, b Pending) int {
		return cmp.Or(strings.Compare(string(a.Reason), string(b.Reason)), strings.Compare(a.Shape, b.Shape))
	})
	return out
}

// SizeOf is a pod's request, as all tables count it.
func (sv *Survey) SizeOf(p *plan.Pod) Size { return sv.demandSize(p) }

// shape is a request in short: the number of GPUs where they are whole or parts
// of one ("8", "0.5", "2x0.5" of different GPUs), the profiles of MIG requests
// ("1g.10gb", "1g.10gb*2"); with the vendor where it is not NVIDIA.
func (sv *Survey) shape(p *plan.Pod) string {
	d := p.Demand
	if len(d.MIG) > 0 {
		return demandText(d)
	}
	size, times := sv.demandSize(p), ""
	n := max(size.Compute, size.Memory)
	if f := d.Fraction; f != nil && f.GPUs > 1 {
		n /= f.GPUs
		times = strconv.Itoa(f.GPUs) + "x"
	}
	text := times + number(float64(n)/GPUShares)
	if d.Vendor != "nvidia" && d.Vendor != "" {
		text += " " + d.Vendor
	}
	return text
}

// number prints at most two decimals; what is not zero never prints as zero.
func number(v float64) string {
	if v < 0.005 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// maxCount prevents overflows; no pod requests more.
const maxCount = 1 << 20

// demandSize is a pod's request in shares of a GPU. MIG profiles have the size
// of the fleet's first product, by name, that has them. Where none has, slices
// count as those of a seven-slice GPU, and memory as much as compute. Memory in
// MiB is measured against the smallest GPU.
func (sv *Survey) demandSize(p *plan.Pod) Size {
	gpus := min(max(p.Demand.GPUs, 0), maxCount)
	s := Size{gpus * GPUShares, gpus * GPUShares}
	for _, in := range p.Demand.MIG {
		one := sv.instanceSize(in)
		n := min(max(in.Count, 0), maxCount)
		s = s.plus(Size{one.Compute * n, one.Memory * n})
	}
	if f := p.Demand.Fraction; f != nil {
		one, ok := fractionSize(p, sv.memoryMiB)
		if !ok { // of unstated size: one slice
			one = Size{GPUShares / wholeCompute, GPUShares / wholeMemory}
		}
		n := min(max(f.GPUs, 1), maxCount)
		s = s.plus(Size{one.Compute * n, one.Memory * n})
	}
	return s
}

func (sv *Survey) instanceSize(in demand.Instances) Size {
	for _, model := range sv.fleet {
		if t, ok := mig.ForModel(model); ok {
			if p, ok := t.Exact(in.Name); ok {
				return sizeOf(t, p)
			}
		}
	}
	compute := min(max(in.Profile.Compute, 0), wholeCompute) * GPUShares / wholeCompute
	return Size{compute, compute}
}

// demandText names a demand: "3g.40gb", "gpu*2", "amd.gpu", "1g.10gb*2 part".
func demandText(d demand.Demand) string {
	var words []string
	if d.GPUs != 0 {
		word := "gpu"
		if d.Vendor != "nvidia" && d.Vendor != "" {
			word = d.Vendor + ".gpu"
		}
		words = append(words, word+times(d.GPUs))
	}
	for _, in := range d.MIG {
		words = append(words, in.Name+times(in.Count))
	}
	if f := d.Fraction; f != nil {
		word := "part"
		if f.CoreMilli > 0 {
			word += fmt.Sprintf(":core=%d", f.CoreMilli)
		}
		if f.MemoryMiB > 0 {
			word += fmt.Sprintf(":memory-mib=%d", f.MemoryMiB)
		}
		if f.MemoryMilli > 0 {
			word += fmt.Sprintf(":memory=%d", f.MemoryMilli)
		}
		words = append(words, word+times(max(f.GPUs, 1)))
	}
	return strings.Join(words, " ")
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("*%d", n)
}
