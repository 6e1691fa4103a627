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
		if text != "" && text != last && ctx.Err() == nil { // once, not five times a second
			w.log.Warn("a fake could not do its work, trying again", "error", text)
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
	written := cluster.WriteTargets(filepath.Join(w.cluster.PrometheusDir(), targetsFile), list)
	if written == nil {
		w.targets = list
	}
	return errors.Join(err, written)
}

// product of a node's GPUs, by its pool.
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

// targetList is all that Prometheus shall scrape now, in a stable order.
func (w *World) targetList() []cluster.TargetGroup {
	var out []cluster.TargetGroup
	exporters := w.machines.Targets()
	for _, node := range slices.Sorted(maps.Keys(exporters)) {
		out = append(out, cluster.TargetGroup{Targets: []string{exporters[node]}, Labels: map[string]string{"job": jobExporter, "namespace": systemNamespace, "node": node}})
	}
	for _, key := range w.servers.running() {
		namespace, pod, _ := strings.Cut(key, "/")
		out = append(out, cluster.TargetGroup{Targets: []string{w.pages.address}, Labels: map[string]string{
			"job": jobServers, "namespace": namespace, "pod": pod, "container": "main", "__metrics_path__": pagePath(key),
		}})
	}
	if a := w.autoscaler.Load(); a != nil {
		out = append(out, cluster.TargetGroup{Targets: []string{*a}, Labels: map[string]string{"job": jobAutoscaler, "namespace": systemNamespace}})
	}
	return out
}

// Play starts the traffic now.
func (w *World) Play() error { return w.Gateway.Play(w.opts.Trace) }

// Failed is closed when a process has ended without having been stopped.
func (w *World) Failed() <-chan struct{} { return w.cluster.Failed() }

// Err returns which process ended and why; nil while all run.
func (w *World) Err() error { return w.cluster.Err() }

// Kubeconfig is the path of the administrator's kubeconfig.
func (w *World) Kubeconfig() string { return w.cluster.Kubeconfig() }

// PrometheusURL is where Prometheus answers.
func (w *World) PrometheusURL() string { return w.cluster.PrometheusURL() }

// AutoscalerURL is where the autoscaler answers; empty before it has started.
func (w *World) AutoscalerURL() string {
	if a := w.autoscaler.Load(); a != nil {
		return "http://" + *a
	}
	return ""
}

// AdapterURL is where the adapter itself answers, past the API server.
func (w *World) AdapterURL() string { return "https://" + w.adapter }

// AdapterCA is the file with who signed the adapter's certificate.
func (w *World) AdapterCA() string { return filepath.Join(w.cluster.PrometheusDir(), scraperCA) }

// Dir is the folder with logs and everything else.
func (w *World) Dir() string { return w.cluster.Dir() }

// Stop ends everything and leaves nothing behind.
func (w *World) Stop() {
	w.stop.Do(func() {
		if w.cancel != nil {
			w.cancel()
		}
		w.loop.Wait()
		if w.machines != nil {
			w.machines.Stop()
		}
		if w.stopGroups != nil {
			w.stopGroups()
		}
		if w.real != nil {
			if err := w.real.Stop(); err != nil {
				w.log.Warn("something of the real node is left", "error", err)
			}
		}
		w.cluster.Stop()
	})
}
