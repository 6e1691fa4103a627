//go:build linux

package node_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/sandbox/node"
	"github.com/gpuscale/gpuscale/sandbox/node/nodetest"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestGPUs: NVIDIA's device plugin and feature discovery run as DaemonSets. The kubelet allocates whole GPUs,
// MIG devices and time-sliced GPUs, the exporter attributes them, and an HPA scales by them.
func TestGPUs(t *testing.T) {
	nodetest.Only(t)
	c := newInstallation(t)
	c.state = t.TempDir()
	state := c.machine(whole, "3g.40gb@0 1g.10gb@4", whole)
	for i := range state.GPUs {
		state.GPUs[i].Values = map[string]string{"util": "20 10"}
	}
	c.must(state.Write(filepath.Join(c.state, "state")))
	c.startGPUNode(node.Options{Labels: map[string]string{"nvidia.com/gpu.present": "true"}})
	c.load("exporter", "adapter")
	defer c.tells("-n gpu-operator describe pods", "-n gpu-operator logs daemonset/gpu-feature-discovery", "-n gpu-operator logs daemonset/nvidia-device-plugin-daemonset", "get pods -o wide", "get events")
	c.create("device-plugin.yaml", "SELECTOR", anyNode)
	c.create("gpu-feature-discovery.yaml", "SELECTOR", anyNode)
	c.discovered(map[string]string{
		"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "3", "nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-1g.10gb.count": "1",
	})
	c.values = `
exporter:
  source: nvml` + withDriver + `
adapter: {enabled: true, config: {interval: 1s, maxAge: 15s}}
`
	c.install()
	c.scrape()
	c.offers(map[string]string{"nvidia.com/gpu": "2", "nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "1"})
	c.create("embedding.yaml")
	c.create("slice.yaml", "NAME", "slice", "RESOURCE", "nvidia.com/mig-1g.10gb")
	c.podReady("slice")
	t.Run("a MIG device is attributed", c.with(func() { c.attributed("slice", state) }))
	first := c.embedders(1)
	t.Run("a whole GPU is attributed", c.with(func() { c.attributed(first[0], state) }))
	t.Run("an HPA follows the GPUs", c.with(func() {
		for i := range state.GPUs {
			state.GPUs[i].Values = map[string]string{"util": "90 10"}
		}
		c.must(state.Write(filepath.Join(c.state, "state")))
		for _, name := range c.embedders(2) {
			c.attributed(name, state)
		}
	}))
	t.Run("time-sliced GPUs are attributed", c.with(func() {
		c.must(os.WriteFile(filepath.Join(c.state, "plugin.yaml"), []byte(c.text("sharing.yaml")), 0o644))
		c.restarted("nvidia-device-plugin-daemonset")
		c.offers(map[string]string{"nvidia.com/gpu": "4", "nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "1"})
		for _, name := range []string{"third", "fourth"} {
			c.create("slice.yaml", "NAME", name, "RESOURCE", "nvidia.com/gpu")
			c.podReady(name)
		}
		on := map[string]int{}
		for _, name := range append(c.embedders(2), "third", "fourth") {
			c.attributed(name, state)
			on[c.allocated(name)[0]]++
		}
		if len(on) != 2 || on[fakenvml.GPUUUID(0)] != 2 {
			c.Errorf("four pods on two GPUs: %v", on)
		}
	}))
	t.Run("the chart is upgraded", c.with(c.upgraded))
}

// discovered acts as NFD's worker: it sets what GPU feature discovery has written as labels of the node.
func (c *installation) discovered(want map[string]string) {
	c.Helper()
	c.await("feature discovery", func() error {
		text, err := os.ReadFile(c.node.Path(features + "/gfd"))
		if err != nil {
			return err
		}
		labels := map[string]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			labels[name] = value
		}
		for name, value := range want {
			if labels[name] != value {
				return fmt.Errorf("%s=%q, want %q", name, labels[name], value)
			}
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
		if err != nil {
			return err
		}
		_, err = c.kubectl("patch", "node", c.node.Name(), "-p", string(patch))
		return err
	})
}

// offers waits until the kubelet advertises exactly these devices.
func (c *installation) offers(want map[string]string) {
	c.Helper()
	c.await("the kubelet's devices", func() error {
		var n corev1.Node
		if err := c.env.Admin.Get(c.Context(), client.ObjectKey{Name: c.node.Name()}, &n); err != nil {
			return err
		}
		for name, q := range n.Status.Allocatable {
			if strings.HasPrefix(string(name), "nvidia.com/") && q.String() != want[string(name)] && (want[string(name)] != "" || !q.IsZero()) {
				return fmt.Errorf("%s: %s, want %q", name, &q, want[string(name)])
			}
		}
		for name := range want {
			if _, ok := n.Status.Allocatable[corev1.ResourceName(name)]; !ok {
				return fmt.Errorf("no %s", name)
			}
		}
		return nil
	})
}

// embedders waits for the server's pods and returns their names.
func (c *installation) embedders(want int) []string {
	c.Helper()
	var names []string
	c.await(fmt.Sprintf("%d servers", want), func() error {
		names = nil
		for _, p := range c.pods() {
			if p.Labels["app"] == "embed" && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				names = append(names, p.Name)
			}
		}
		if len(names) != want {
			hpa, _ := c.kubectl("get", "hpa", "embed", "-o", "jsonpath={.status}")
			return fmt.Errorf("there are %v; the HPA: %s", names, hpa)
		}
		return nil
	})
	slices.Sort(names)
	return names
}

// attributed waits until Prometheus reports, for this pod, the device that the kubelet has allocated to it,
// and no other.
func (c *installation) attributed(pod string, state fakenvml.State) {
	c.Helper()
	c.await("attribution to "+pod, func() error {
		devices := c.allocated(pod)
		if len(devices) != 1 {
			return fmt.Errorf("the kubelet has allocated %v", devices)
		}
		uuid, instance := devices[0], ""
		for _, g := range state.GPUs {
			for _, i := range g.Instances {
				if i.Computes[0].UUID == devices[0] {
					uuid, instance = g.UUID, fmt.Sprint(i.ID)
				}
			}
		}
		series, err := testenv.Query(c.Context(), c.env.Cluster.PrometheusURL(), fmt.Sprintf("gpu_held{exported_pod=%q}", pod))
		if err != nil {
			return err
		}
		if len(series) != 1 || series[0].Labels.Get("gpu_uuid") != uuid || series[0].Labels.Get("gpu_instance_id") != instance {
			return fmt.Errorf("allocated %s, reported %v", devices[0], series)
		}
		return nil
	})
}

// restarted deletes the pod of one of NVIDIA's components and waits for its replacement.
func (c *installation) restarted(app string) {
	c.Helper()
	var list corev1.PodList
	c.must(c.env.Admin.List(c.Context(), &list, client.InNamespace(operator), client.MatchingLabels{"app": app}))
	for i := range list.Items {
		c.must(c.env.Delete(c.Context(), testenv.Object("v1/Pod", operator, list.Items[i].Name)))
	}
}

// upgraded upgrades the release. Pods are replaced; meanwhile the HPA keeps its size and the metrics API is
// available.
func (c *installation) upgraded() {
	before := c.embedders(2)
	first := c.the("adapter").Name
	if err := c.tryInstall("--set", "adapter.podAnnotations.upgraded=yes", "--set", "exporter.podAnnotations.upgraded=yes"); err != nil {
		c.Fatalf("%v\n%s", err, c.describe())
	}
	c.await("new pods", func() error {
		for _, p := range c.pods() {
			if p.Name == first {
				return errors.New("the old adapter is there")
			}
		}
		return c.available("v1beta2.custom.metrics.k8s.io")
	})
	c.scrape()
	if now := c.embedders(2); !slices.Equal(now, before) {
		c.Errorf("the servers were %v, are %v", before, now)
	}
}
