package main

import (
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// large are the answers of a Prometheus about so many GPUs: eight a node, half of them
// with two MIG instances, allocated in turn to 40 namespaces, with an autoscaler.
func large(gpus int, length time.Duration) query.Answers {
	w, err := query.NewWindow(generated, length)
	if err != nil {
		panic(err)
	}
	return largeOver(gpus, w)
}

func largeOver(gpus int, w query.Window) query.Answers {
	a := query.Answers{Window: w, Exporter: true, Autoscaler: true, Lines: map[query.ID][]prom.Line{}, Vectors: map[query.ID]prom.Vector{}}
	add := func(id query.ID, step time.Duration, value func(i int) float64, labels ...string) {
		g := w.Grid(step)
		l := prom.Line{Labels: set(labels...)}
		for i := range g.N + 1 {
			l.Points = append(l.Points, prom.Point{Time: g.At(i), Value: value(i)})
		}
		a.Lines[id] = append(a.Lines[id], l)
	}
	constant := func(v float64) func(int) float64 { return func(int) float64 { return v } }
	const model = "NVIDIA H100 80GB HBM3"
	for n := range gpus / 8 {
		add(query.Nodes, w.Step, constant(8), "node", fmt.Sprint("node-", n), "model", model)
	}
	second := w.Ledger.Seconds()
	for p := range 10 {
		pool := fmt.Sprint("pool-", p)
		share := float64(gpus) / 10
		add(query.Capacity, w.Ledger, func(i int) float64 { return share * second * float64(i) }, "instance", "a", "pool", pool, "model", "H100-80GB")
		for ns := range 4 {
			for _, place := range []string{"busy", "slack", "idle"} {
				add(query.Places, w.Ledger, func(i int) float64 { return share / 16 * second * float64(i) }, "instance", "a", "pool", pool, "model", "H100-80GB",
					"tenant", fmt.Sprint("team-", ns), "namespace", fmt.Sprint("ns-", p*4+ns), "place", place)
			}
		}
		add(query.Places, w.Ledger, func(i int) float64 { return share / 4 * second * float64(i) }, "instance", "a", "pool", pool, "model", "H100-80GB", "tenant", "(none)", "namespace", "(none)", "place", "free")
		add(query.GPUs, w.Coarse, constant(share), "pool", pool, "model", "H100-80GB", "state", "free")
		for _, kind := range []string{"min", "max", "size"} {
			add(query.PoolNodes, w.Coarse, constant(share/8), "pool", pool, "kind", kind)
		}
	}
	for c := range gpus {
		uuid, ns, pod := fmt.Sprint("GPU-", c), fmt.Sprint("ns-", c%40), fmt.Sprintf("work-%d-7d4b9cf6d8-b2c4d", c/4)
		entity := []string{"gpu_uuid", uuid, "namespace", ns, "pod", pod}
		if c%2 == 0 {
			entity = append(entity, "gpu_instance_id", "1", "profile", "3g.40gb")
			a.Vectors[query.Instances] = append(a.Vectors[query.Instances], prom.Sample{Labels: set("node", fmt.Sprint("node-", c/8), "gpu", fmt.Sprint(c%8), "gpu_uuid", uuid, "gpu_instance_id", "1", "profile", "3g.40gb", "start", "0", "size", "4"), Value: 1})
		}
		add(query.AllocatedTo, w.Coarse, constant(1), entity...)
		add(query.IdleFor, w.Coarse, constant(1000), entity...)
		for _, id := range []query.ID{query.MemoryP99, query.UseP95} {
			a.Lines[id] = append(a.Lines[id], prom.Line{Labels: set(append(entity, "model", model)...), Points: []prom.Point{{Time: w.Until, Value: 0.05}}})
		}
		a.Vectors[query.Devices] = append(a.Vectors[query.Devices], prom.Sample{Labels: set("node", fmt.Sprint("node-", c/8), "gpu_uuid", uuid, "model", model), Value: 1})
	}
	return a
}

func set(pairs ...string) prom.Labels {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return prom.FromMap(m)
}
