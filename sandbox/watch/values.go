package watch

import (
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/sandbox/view"
)

// Read returns the value of a measure at the last look.
func (w *Watcher) Read(measure string) (float64, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.value(measure).Get()
}

func (w *Watcher) value(measure string) sample.Value {
	count := func(n int) sample.Value { return sample.Known(float64(n), 0) }
	if !w.tally.begun {
		return sample.Unknown()
	}
	t := &w.tally
	open := w.counts.Queued + w.counts.Waiting + w.counts.Running
	switch measure {
	case "queue":
		return w.readings.queue
	case "exporters":
		return w.readings.exporters
	case "rate":
		return w.rate()
	case "left":
		return count(w.counts.Left + open)
	case "lost_requests":
		return count(w.total - w.counts.Left - open - w.counts.Done)
	case "replicas", "ready_replicas":
		n := 0
		for _, p := range t.last.Pods {
			if p.Serves && (measure == "replicas" || p.Ready) {
				n++
			}
		}
		return count(n)
	case "pending_pods":
		return count(pending(t.last))
	case "repartitions":
		return count(t.repartitions)
	case "repartitions_begun":
		return count(t.repartitionsBegun)
	case "scale_ups":
		return count(t.scaleUps)
	case "scale_downs":
		return count(t.scaleDowns)
	case "wrong_scale_downs":
		return count(t.wrongDowns)
	case "nodes":
		return count(len(t.last.Nodes))
	case "nodes_ready":
		n := 0
		for _, node := range t.last.Nodes {
			if node.Ready {
				n++
			}
		}
		return count(n)
	}
	return sample.Unknown()
}

// Figures returns the numbers for the live view, at the last look.
func (w *Watcher) Figures() view.Figures {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := view.Figures{
		At: w.at, Rate: w.rate(), Queue: w.readings.queue, TTFT: w.readings.ttft,
		Replicas: w.value("replicas"),
		Slices:   slicesOf(w.tally.last),
	}
	if w.tally.last.Wanted >= 0 && w.tally.begun {
		f.Wanted = sample.Known(float64(w.tally.last.Wanted), 0)
	}
	if w.tally.begun {
		countNodes(&f, w.tally.last.Nodes)
	}
	return f
}

// countNodes counts the nodes of a scene. A node that is being repartitioned has no devices for a while, but
// it still counts.
func countNodes(f *view.Figures, nodes []Node) {
	price, up, booting, repartitioning := 0.0, 0, 0, 0
	for _, n := range nodes {
		price += n.Price
		switch {
		case n.Operation != "":
			up, repartitioning = up+1, repartitioning+1
		case n.Ready:
			up++
		case !n.Given:
			booting++
		}
	}
	known := func(n int) sample.Value { return sample.Known(float64(n), 0) }
	f.PricePerHour = sample.Known(price, 0)
	f.Nodes, f.Booting, f.Repartitioning = known(up), known(booting), known(repartitioning)
}

// Summary returns the totals of all looks so far, without the story's stages.
func (w *Watcher) Summary() view.Summary {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &w.tally
	s := view.Summary{
		Requests: w.counts.Done, Length: w.at,
		ByRepartition: t.byRepartition, ByNode: t.byNode,
	}
	if wait, ok := w.gateway.Wait(0.95); ok {
		s.WaitP95 = sample.Known(wait.Seconds(), 0)
	}
	if t.begun {
		s.PendingSeconds = sample.Known(t.pendingSeconds, 0)
		s.GPUHours = sample.Known(t.gpuSeconds/3600, 0)
		s.WrongDowns = sample.Known(float64(t.wrongDowns), 0)
	}
	if t.knownSeconds > 0 {
		s.Busy = sample.Known(t.busySeconds/t.knownSeconds, 0)
	}
	return s
}
