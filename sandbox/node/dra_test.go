//go:build linux

package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/sandbox/node"
	"github.com/gpuscale/gpuscale/sandbox/node/nodetest"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// envDRADriver names the program of NVIDIA's gpu-kubelet-plugin. The tests cannot compile it, since it has no
// module that can be downloaded.
const envDRADriver = "GPUSCALE_TEST_DRA_DRIVER"

// TestDRA: NVIDIA's DRA driver offers whole GPUs and MIG devices. Pods get them by claims, and by the
// resource name of a DeviceClass. The exporter attributes them, and the autoscaler counts them.
func TestDRA(t *testing.T) {
	c, state := newDRANode(t, "", whole, "3g.40gb@0 1g.10gb@4", whole)
	defer c.tellsDRA()
	c.create("claim.yaml", "NAME", "claim", "CLASS", "gpu.nvidia.com", "SELECTOR", "device.attributes['gpu.nvidia.com'].uuid == '"+state.GPUs[0].UUID+"'")
	c.create("claim.yaml", "NAME", "small", "CLASS", "mig.nvidia.com", "SELECTOR", "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'")
	c.podReady("claim")
	c.podReady("small")
	c.claimed("claim", state.GPUs[0].UUID, "")
	c.claimed("small", state.GPUs[1].UUID, "2")
	c.create("slice.yaml", "NAME", "limit", "RESOURCE", "nvidia.com/gpu")
	c.podReady("limit")
	c.claimed("limit", state.GPUs[2].UUID, "")
	c.observed("pod gpuscale/claim requests=(gpu)", "pod gpuscale/small requests=(1g.10gb)", "pod gpuscale/limit requests=(gpu)",
		"allocatable=(gpu*2 1g.10gb 3g.40gb)", "allocated-to=(gpuscale/claim)", "1g.10gb@4:allocated-to=gpuscale/small", "allocated-to=(gpuscale/limit)")
}

// TestDRADynamicMIG: the driver creates the GPU instance that a pod claims, and the exporter attributes it.
func TestDRADynamicMIG(t *testing.T) {
	c, state := newDRANode(t, "DynamicMIG=true", whole)
	defer c.tellsDRA()
	for _, name := range []string{"first", "second"} {
		c.create("claim.yaml", "NAME", name, "CLASS", "mig.nvidia.com", "SELECTOR", "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'")
		c.podReady(name)
	}
	now, err := fakenvml.Read(filepath.Join(c.state, "state"))
	c.must(err)
	for _, pod := range []string{"first", "second"} {
		device, err := c.kubectl("get", "resourceclaims", "-o", `jsonpath={.items[?(@.status.reservedFor[0].name=="`+pod+`")].status.allocation.devices.results[0].device}`)
		c.must(err)
		i := slices.IndexFunc(now.GPUs[0].Instances, func(i fakenvml.Instance) bool {
			return strings.HasSuffix(device, fmt.Sprint("-", i.Placement.Start)) // the name is gpu-MINOR-mig-PROFILE-ID-START
		})
		if i < 0 {
			t.Fatalf("%s has %q, the GPU %v", pod, device, now.GPUs[0].Instances)
		}
		c.claimed(pod, state.GPUs[0].UUID, fmt.Sprint(now.GPUs[0].Instances[i].ID))
	}
	c.observed("pod gpuscale/first requests=(1g.10gb)", "gpu real/0 model=H100-80GB uuid="+state.GPUs[0].UUID, ":allocated-to=gpuscale/first", ":allocated-to=gpuscale/second", " by-claim")
}

// newDRANode starts a node with NVIDIA's DRA driver, with these feature gates, and the exporter.
func newDRANode(t *testing.T, gates string, layouts ...string) (*installation, fakenvml.State) {
	nodetest.Only(t)
	program := os.Getenv(envDRADriver)
	if program == "" {
		t.Skip(envDRADriver + " names no gpu-kubelet-plugin of NVIDIA's DRA driver")
	}
	c := newInstallation(t)
	c.state = t.TempDir()
	state := c.machine(layouts...)
	c.driverRoot(state)
	c.startGPUNode(node.Options{Labels: map[string]string{"nvidia.com/gpu.present": "true", "gpuscale.io/pool": "rack"}})
	c.must(c.node.Load(c.Context(), c.onMachine("gpu-kubelet-plugin", program)))
	c.load("exporter", "autoscaler")
	c.create("dra-driver.yaml", "SWITCHES", gates)
	c.values = `
exporter:
  source: nvml
  dra: true` + withDriver + `
autoscaler:
  enabled: true
  replicas: 1
  migManager: {namespace: ""}
  config: {idleInterval: 1s, prometheus: {interval: 1s, maxAge: 15s}}
`
	c.install()
	c.create("dra-pool.yaml", "GPUS", fmt.Sprint(len(layouts)))
	c.scrape()
	return c, state
}

// observed waits until the autoscaler's snapshot contains these texts.
func (c *installation) observed(want ...string) {
	c.Helper()
	c.await("the autoscaler's snapshot", func() error {
		snapshot := c.forwarded("autoscaler", "9402", "/debug/snapshot")
		for _, text := range want {
			if !strings.Contains(snapshot, text) {
				return fmt.Errorf("it has no %q:\n%s", text, snapshot)
			}
		}
		return nil
	})
}

// tellsDRA logs the DRA objects after a failure.
func (c *installation) tellsDRA() {
	c.tells("-n gpu-operator logs daemonset/dra-driver", "describe pods", "get resourceslices -o yaml", "get resourceclaims -A -o yaml", "get events", "logs daemonset/gpuscale-exporter")
}

// driverRoot creates the files that NVIDIA's DRA driver looks for among the driver's files, and configures
// which devices it injects.
func (c *installation) driverRoot(state fakenvml.State) {
	c.Helper()
	library, err := fakenvml.Build(c.Context(), c.cache())
	c.must(err)
	text, err := os.ReadFile(filepath.Join(library, fakenvml.Library))
	c.must(err)
	root := filepath.Join(c.state, "driver")
	for _, dir := range []string{"usr/lib64", "usr/bin", "dev/nvidia-caps"} {
		c.must(os.MkdirAll(filepath.Join(root, filepath.FromSlash(dir)), 0o755))
	}
	c.must(os.WriteFile(filepath.Join(root, "usr/lib64", fakenvml.Library), text, 0o755))
	c.must(os.WriteFile(filepath.Join(root, "usr/lib64/libcuda.so."+state.Driver), nil, 0o755))
	c.must(os.WriteFile(filepath.Join(root, "usr/bin/nvidia-smi"), nil, 0o755))
	// Major numbers of NVIDIA's devices, as in /proc/devices. They are not those of this machine.
	const gpus, caps = 195, 511
	c.must(os.WriteFile(filepath.Join(c.state, "devices"), fmt.Appendf(nil, "Character devices:\n%d nvidia\n%d nvidia-caps\n\nBlock devices:\n  7 loop\n", gpus, caps), 0o644))
	device := func(name string, major, minor int) {
		c.must(syscall.Mknod(filepath.Join(root, "dev", name), syscall.S_IFCHR|0o666, major<<8|minor))
	}
	// The real driver adds a folder for each instance that is created. Here there are folders for all possible
	// instances.
	all := state
	all.GPUs = slices.Clone(state.GPUs)
	for i := range all.GPUs {
		all.GPUs[i].Instances = nil
		for id := range 15 {
			all.GPUs[i].Instances = append(all.GPUs[i].Instances, fakenvml.Instance{ID: id, Computes: fakenvml.Whole("")})
		}
	}
	c.must(all.WriteFiles(c.state))
	device("nvidiactl", gpus, 255)
	for _, g := range state.GPUs {
		device(fmt.Sprint("nvidia", g.Minor), gpus, g.Minor)
	}
}

// claimed waits until Prometheus reports the device, and no other, for this pod.
func (c *installation) claimed(pod, uuid, instance string) {
	c.Helper()
	c.await("attribution to "+pod, func() error {
		series, err := testenv.Query(c.Context(), c.env.Cluster.PrometheusURL(), fmt.Sprintf("gpu_held{exported_pod=%q}", pod))
		if err != nil {
			return err
		}
		if len(series) != 1 || series[0].Labels.Get("gpu_uuid") != uuid || series[0].Labels.Get("gpu_instance_id") != instance {
			return fmt.Errorf("want GPU %s, instance %q; reported %v", uuid, instance, series)
		}
		return nil
	})
}
