package world

import (
	"context"
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// until waits until nothing is missing. It returns early if a program dies.
func (w *World) until(ctx context.Context, missing func() []string) error {
	return w.Cluster.Await(ctx, func(context.Context) error {
		if left := missing(); len(left) > 0 {
			return fmt.Errorf("still missing: %s", strings.Join(left, ", "))
		}
		return nil
	})
}

func (w *World) nodesUp(ctx, _ context.Context) error { return w.until(ctx, w.nodesMissing) }

// nodesMissing lists nodes of the story that are not ready or have no devices.
func (w *World) nodesMissing() (out []string) {
	for _, given := range w.opts.Story.Nodes {
		n, ok := w.Caches.Node(given.Name)
		if !ok || !kube.NodeReady(n) || len(partition.Advertised(n)) == 0 {
			out = append(out, "node "+given.Name)
		}
	}
	return out
}

// podsMissing lists workloads with fewer ready pods than the story begins with.
func (w *World) podsMissing() (out []string) {
	ready := map[string]int{}
	for _, p := range w.Caches.Pods() {
		if l, ok := workloadOf(w.opts.Story, p); ok && p.DeletionTimestamp == nil && kube.PodReady(p) {
			ready[l.Namespace+"/"+l.Name]++
		}
	}
	for _, l := range w.opts.Story.Workloads {
		if key := l.Namespace + "/" + l.Name; ready[key] < l.Replicas {
			out = append(out, fmt.Sprintf("%d of %d pods of %s", l.Replicas-ready[key], l.Replicas, key))
		}
	}
	return out
}
