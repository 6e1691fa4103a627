//go:build linux

package node_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/sandbox/node"
	"github.com/gpuscale/gpuscale/sandbox/node/nodetest"
)

// withDriver mounts the driver's library and the machine's state into a container of the chart.
const withDriver = `
  extraEnv: [{name: LD_LIBRARY_PATH, value: /host/nvml}, {name: FAKENVML_STATE, value: /host/machine/state}]
  extraVolumes: [{name: nvml, hostPath: {path: /opt/nvml}}, {name: machine, hostPath: {path: /opt/machine}}]
  extraVolumeMounts: [{name: nvml, mountPath: /host/nvml}, {name: machine, mountPath: /host/machine}]
`

// TestRepartition: a pending pod fits on no instance. The autoscaler's pod makes the agent's pod repartition
// the GPU, NVIDIA's device plugin restarts, the kubelet advertises the instance, kube-scheduler binds the
// pod, and its container runs.
func TestRepartition(t *testing.T) {
	nodetest.Only(t)
	c := newInstallation(t)
	c.state = t.TempDir()
	c.machine(smalls)
	c.startGPUNode(node.Options{Labels: map[string]string{
		"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "1",
		"nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "mixed", "gpuscale.io/pool": "rack", "gpuscale.io/mig-agent": "true",
	}})
	c.load("exporter", "autoscaler", "agent")
	c.values = `
exporter:
  source: nvml` + withDriver + `
agent:
  enabled: true` + withDriver + `
autoscaler:
  enabled: true
  replicas: 1
  migManager: {namespace: ""}
  config: {idleInterval: 1s, prometheus: {interval: 1s, maxAge: 15s}}
`
	c.create("device-plugin.yaml", "SELECTOR", anyNode)
	c.install()
	c.scrape()
	c.create("rack.yaml", "ACTUATOR", "agent")
	c.offers(map[string]string{"nvidia.com/mig-1g.10gb": "7"})
	c.create("big.yaml", "NAME", "big", "RESOURCE", "nvidia.com/mig-3g.40gb")
	defer c.tells("describe pod big", "get node real -o jsonpath={.metadata.annotations}", "logs deployment/gpuscale-autoscaler", "logs daemonset/gpuscale-agent", "logs daemonset/gpuscale-exporter")
	c.podReady("big")
	c.prints("serving big", "logs", "big")
	now, err := fakenvml.Read(filepath.Join(c.state, "state"))
	c.must(err)
	var made string
	for _, i := range now.GPUs[0].Instances {
		if i.Placement.Profile.Compute == 3 && len(i.Computes) == 1 {
			made = i.Computes[0].UUID
		}
	}
	allocated := c.allocated("big")
	if made == "" || !slices.Equal(allocated, []string{made}) {
		layout, _ := now.GPUs[0].Layout()
		t.Errorf("the kubelet has allocated %q, want %q; the GPU has %v", allocated, made, layout)
	}
}
