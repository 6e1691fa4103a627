package world

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// run steps the fakes until ctx ends.
func (w *World) run(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	last := ""
	for {
		text := ""
		if err := w.turn(ctx); err != nil {
			text = err.Error()
		}
		if text != "" && text != last && ctx.Err() == nil { // once, not five times a second
			w.log.Warn("a fake could not do its work, trying again", "error", text)
		}
		last = text
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (w *World) turn(ctx context.Context) error {
	err := w.machines.Step(ctx)
	w.servers.sync(w.Caches.Pods(), w.product)
	if writeErr := w.targets.write(w.targetList()); err == nil {
		err = writeErr
	}
	return err
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
	for _, e := range w.machines.Targets() {
		out = append(out, cluster.TargetGroup{Targets: []string{e.Address}, Labels: map[string]string{"job": jobExporter, "namespace": systemNamespace, "node": e.Node}})
	}
	for i := range w.opts.Story.Replayed {
		name := replayedName(i)
		out = append(out, cluster.TargetGroup{Targets: []string{w.pages.address()}, Labels: map[string]string{
			"job": jobReplay, "namespace": systemNamespace, "node": name, "__metrics_path__": replayedPath(name),
		}})
	}
	for _, key := range w.servers.running() {
		namespace, pod, _ := strings.Cut(key, "/")
		out = append(out, cluster.TargetGroup{Targets: []string{w.pages.address()}, Labels: map[string]string{
			"job": jobServers, "namespace": namespace, "pod": pod, "container": "main", "__metrics_path__": pagePath(key),
		}})
	}
	if a := w.autoscaler.Load(); a != nil {
		out = append(out, cluster.TargetGroup{Targets: []string{*a}, Labels: map[string]string{"job": jobAutoscaler, "namespace": systemNamespace}})
	}
	return out
}

func podReady(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
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
		if w.pages != nil {
			w.pages.stop()
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
		w.ports.release()
	})
}
