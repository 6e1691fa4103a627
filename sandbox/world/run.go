package world

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// run steps the fakes until ctx ends.
func (w *World) run(ctx context.Context) {
	last := ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		text := ""
		if err := w.turn(ctx); err != nil {
			text = err.Error()
		}
		if text != "" && text != last && ctx.Err() == nil { // logged once, not five times a second
			w.opts.Log.Warn("a fake could not do its work, trying again", "error", text)
		}
		last = text
	}, tick)
}

func (w *World) turn(ctx context.Context) error {
	err := w.machines.Step(ctx, w.Caches.Nodes(), w.Caches.PodsOn, w.Caches.MIGConfig())
	w.servers.sync(w.Caches.Pods(), w.product)
	list := w.targetList()
	if reflect.DeepEqual(w.targets, list) {
		return err
	}
	written := cluster.WriteTargets(filepath.Join(w.Cluster.PrometheusDir(), targetsFile), list)
	if written == nil {
		w.targets = list
	}
	return errors.Join(err, written)
}

// product returns the GPU product of a node, from its pool.
func (w *World) product(name string) string {
	n, ok := w.Caches.Node(name)
	if !ok {
		return ""
	}
	for _, p := range w.opts.Story.Pools {
		if p.Name == n.Labels[v1alpha1.NodePoolLabel] {
			return p.Product
		}
	}
	return ""
}

// targetList returns everything that Prometheus should scrape now, in a stable order.
func (w *World) targetList() []cluster.TargetGroup {
	var out []cluster.TargetGroup
	exporters := w.machines.Targets()
	for _, node := range slices.Sorted(maps.Keys(exporters)) {
		out = append(out, cluster.TargetGroup{Targets: []string{exporters[node]}, Labels: map[string]string{"job": jobExporter, "namespace": systemNamespace, "node": node}})
	}
	for _, key := range w.servers.running() {
		namespace, pod, _ := strings.Cut(key, "/")
		out = append(out, cluster.TargetGroup{Targets: []string{w.pages}, Labels: map[string]string{
			"job": jobServers, "namespace": namespace, "pod": pod, "container": "main", "__metrics_path__": pagePath(key),
		}})
	}
	if a := w.Programs.autoscaler.Load(); a != nil {
		out = append(out, cluster.TargetGroup{Targets: []string{*a}, Labels: map[string]string{"job": jobAutoscaler, "namespace": systemNamespace}})
	}
	return out
}
