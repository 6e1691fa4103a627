package story

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Validate returns the problems of a story, with the path of each field. It does not repeat the API server's
// validation.
func (s Story) Validate() (all field.ErrorList) {
	check := func(ok bool, at *field.Path, value any, format string, v ...any) {
		if !ok {
			all = append(all, field.Invalid(at, value, fmt.Sprintf(format, v...)))
		}
	}
	pools, nodes, workloads := map[string]Pool{}, map[string]bool{}, map[string]Workload{}
	for i, p := range s.Pools {
		at := field.NewPath("pools").Index(i)
		_, twice := pools[p.Name]
		check(p.Name != "" && !twice, at.Child("name"), p.Name, "every pool has a name of its own")
		check(p.Min <= p.Max, at.Child("max"), p.Max, "less than min")
		check(p.GPUs >= 1 && p.GPUs <= 16, at.Child("gpus"), p.GPUs, "1 to 16")
		check(p.Price >= 0 && p.Price < 1e6, at.Child("pricePerHour"), fmt.Sprint(p.Price), "0 to 1000000") // also rejects NaN
		_, err := Place(p.Product, min(p.GPUs, 16), p.Layout)
		check(err == nil, at.Child("layout"), p.Layout, "%v", err)
		pools[p.Name] = p
	}
	for i, n := range s.Nodes {
		at := field.NewPath("nodes").Index(i)
		check(n.Name != "" && !nodes[n.Name], at.Child("name"), n.Name, "every node has a name of its own")
		nodes[n.Name] = true
		p, ok := pools[n.Pool]
		check(ok, at.Child("pool"), n.Pool, "no such pool")
		if ok {
			_, err := Place(p.Product, min(p.GPUs, 16), n.Layout)
			check(err == nil, at.Child("layout"), n.Layout, "%v", err)
		}
	}
	for i, w := range s.Workloads {
		at := field.NewPath("workloads").Index(i)
		_, twice := workloads[w.Namespace+"/"+w.Name]
		check(w.Namespace != "" && w.Name != "" && !twice, at.Child("name"), w.Name, "every workload has a namespace, and a name of its own in it")
		workloads[w.Namespace+"/"+w.Name] = w
		_, ok := pools[w.Pool]
		check(ok || w.Pool == "", at.Child("pool"), w.Pool, "no such pool")
		check(nodes[w.Node] || w.Node == "", at.Child("node"), w.Node, "no such node")
		check(w.Resource != "", at.Child("resource"), w.Resource, "missing")
		check(w.Busy >= 0 && w.Busy <= 1, at.Child("busy"), fmt.Sprint(w.Busy), "0 to 1")
	}
	for i, o := range s.Objects {
		at := field.NewPath("objects").Index(i)
		for _, key := range []string{"apiVersion", "kind", "metadata"} {
			check(o[key] != nil, at.Child(key), o[key], "missing")
		}
	}
	if t := s.Traffic; t != nil {
		at := field.NewPath("traffic")
		check(workloads[t.Namespace+"/"+t.Name].Model != "", at.Child("name"), t.Name, "no workload of this name has a model")
		check(t.Speed > 0, at.Child("speed"), t.Speed, "more than 0")
	}
	for i, e := range s.Expect {
		at := field.NewPath("expect").Index(i)
		check(len(e.All) > 0, at.Child("all"), e.All, "missing")
		check(e.Within > 0, at.Child("within"), e.Within.String(), "more than 0")
	}
	return all
}

// Place converts a layout by count to placements on a product's GPUs, as mig-parted would. It returns one
// layout for each GPU, nil for GPUs without MIG.
func Place(product string, gpus int, l Layout) ([]mig.Layout, error) {
	model, ok := gpu.ParseProduct(product)
	if !ok {
		return nil, fmt.Errorf("unknown product %q", product)
	}
	if len(l) == 0 {
		return nil, nil
	}
	if len(l) != 1 && len(l) != gpus {
		return nil, fmt.Errorf("layouts for %d GPUs, there are %d", len(l), gpus)
	}
	table, ok := mig.ForModel(model.Name)
	if !ok {
		return nil, fmt.Errorf("%s has no MIG", product)
	}
	var out []mig.Layout
	for i := range gpus {
		var want []mig.Count
		for name, n := range l[min(i, len(l)-1)] {
			p, ok := table.Exact(name)
			if !ok {
				return nil, fmt.Errorf("%s has no profile %q", model.Name, name)
			}
			if n < 1 || n > 8 {
				return nil, fmt.Errorf("%s: want 1 to 8, not %d", name, n)
			}
			want = append(want, mig.Count{Profile: p, N: n})
		}
		layout, ok := table.Arrange(nil, want)
		if !ok {
			return nil, fmt.Errorf("the MIG devices of GPU %d do not fit on a %s", i, model.Name)
		}
		out = append(out, layout)
	}
	return out, nil
}
