//go:build linux

package node_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/node"
	"github.com/gpuscale/gpuscale/sandbox/node/image"
	"github.com/gpuscale/gpuscale/sandbox/node/nodetest"
)

// plugin is NVIDIA's device plugin, over the fake driver. A container has a /proc of
// its own, in which the driver's folder is no file of the node: it is mounted inside.
const plugin = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {namespace: gpu-operator, name: nvidia-device-plugin-daemonset}
spec:
  selector: {matchLabels: {app: nvidia-device-plugin-daemonset}}
  template:
    metadata: {labels: {app: nvidia-device-plugin-daemonset}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: plugin
        image: nvidia-device-plugin:trial
        command: [/bin/sh, -c, "/bin/mount --bind /host/machine/proc/driver /proc/driver && /bin/mount --bind /host/machine/pci /sys/bus/pci/devices && exec /program --mig-strategy=mixed"]
        env: [{name: LD_LIBRARY_PATH, value: /host/nvml}, {name: FAKENVML_STATE, value: /host/machine/state}]
        securityContext: {privileged: true}
        volumeMounts:
        - {name: plugins, mountPath: /var/lib/kubelet/device-plugins}
        - {name: machine, mountPath: /host/machine}
        - {name: nvml, mountPath: /host/nvml}
      volumes:
      - {name: plugins, hostPath: {path: /var/lib/kubelet/device-plugins}}
      - {name: machine, hostPath: {path: /opt/machine}}
      - {name: nvml, hostPath: {path: /opt/nvml}}
`

const rack = `
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: rack}
spec:
  provider: {fixed: {}}
  template: {product: NVIDIA-H100-80GB-HBM3, gpus: 1, cpu: "2", memory: 16Gi}
  mig: {actuator: agent, idleAfter: 1s}
`

const big = `
apiVersion: v1
kind: Pod
metadata: {namespace: gpuscale, name: big}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: train
    image: gpuscale-probe:1
    args: [serve, ":8080"]
    resources: {limits: {nvidia.com/mig-3g.40gb: "1"}}
`

// withDriver mounts the driver's library and the machine into the container of a
// component of the chart.
const withDriver = `
  extraEnv: [{name: LD_LIBRARY_PATH, value: /host/nvml}, {name: FAKENVML_STATE, value: /host/machine/state}]
  extraVolumes: [{name: nvml, hostPath: {path: /opt/nvml}}, {name: machine, hostPath: {path: /opt/machine}}]
  extraVolumeMounts: [{name: nvml, mountPath: /host/nvml}, {name: machine, mountPath: /host/machine}]
`

// TestRepartition: a pod that fits no instance is pending, the autoscaler's pod has the
// agent's pod repartition the GPU, NVIDIA's device plugin starts again, the kubelet
// advertises the instance, the scheduler binds the pod, and its container runs.
func TestRepartition(t *testing.T) {
	nodetest.Only(t)
	c := newInstallation(t)
	c.state = t.TempDir()
	state := c.machine()
	library, err := fakenvml.Build(t.Context(), c.cache())
	c.must(err)
	c.startNode(node.Options{
		Labels: map[string]string{
			"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "1",
			"nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "mixed", "gpuscale.io/pool": "rack", "gpuscale.io/mig-agent": "true",
		},
		Mounts: []node.Mount{{Source: library, Target: "/opt/nvml"}, {Source: c.state, Target: "/opt/machine"}},
	})
	c.load("exporter", "autoscaler")
	c.loadAs("agent", "autoscaler")
	c.loadOthers()
	c.values = `
exporter:
  source: nvml` + withDriver + `
agent:
  enabled: true` + withDriver + `
adapter: {enabled: false}
autoscaler:
  replicas: 1
  migManager: {namespace: ""}
  config: {idleInterval: 1s, prometheus: {interval: 1s, maxAge: 15s}}
`
	c.must(c.env.Create(t.Context(), plugin))
	c.install()
	c.scrape()
	c.must(c.env.Create(t.Context(), rack))
	c.advertised(map[string]string{"1g.10gb": "7"})
	c.must(c.env.Create(t.Context(), big))
	defer func() {
		if t.Failed() {
			for _, args := range [][]string{{"describe", "pod", "big"}, {"get", "node", "real", "-o", "jsonpath={.metadata.annotations}"}, {"logs", "deployment/gpuscale-autoscaler"}, {"logs", "daemonset/gpuscale-agent"}, {"logs", "daemonset/gpuscale-exporter"}} {
				out, _ := c.kubectl(args...)
				t.Log(out)
			}
		}
	}()
	c.podReady("big")
	c.prints("serving big", "logs", "big")
	now, err := state.Read(filepath.Join(c.state, "state"))
	c.must(err)
	var made string
	for _, i := range now.GPUs[0].Instances {
		if i.Placement.Profile.Compute == 3 && len(i.Computes) == 1 {
			made = i.Computes[0].UUID
		}
	}
	allocated := ""
	for _, p := range c.podResources() {
		for _, container := range p.Containers {
			for _, d := range container.Devices {
				allocated += fmt.Sprintf("%s/%s %s %v", p.Namespace, p.Name, d.ResourceName, d.DeviceIds)
			}
		}
	}
	if want := fmt.Sprintf("gpuscale/big nvidia.com/mig-3g.40gb [%s]", made); made == "" || allocated != want {
		layout, _ := now.GPUs[0].Layout()
		t.Errorf("the kubelet has allocated %q, want %q; the GPU has %v", allocated, want, layout)
	}
}

// machine has one idle H100 with seven small instances.
func (c *installation) machine() fakenvml.State {
	c.Helper()
	table, _ := mig.ForModel("H100-80GB")
	layout, err := mig.ParseLayout(table, "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6")
	c.must(err)
	gpu := fakenvml.GPU{UUID: fakenvml.GPUUUID(0), Name: "NVIDIA H100 80GB HBM3", MemoryMiB: 81559, Spec: table.Spec(), MIG: true, GPM: true, XIDs: fakenvml.XIDs()}
	for k, p := range layout {
		gpu.Instances = append(gpu.Instances, fakenvml.Instance{ID: k + 1, Placement: p, Computes: fakenvml.Whole(fakenvml.MIGUUID(0, k))})
	}
	s := fakenvml.State{Driver: "580.159.03", GPUs: []fakenvml.GPU{gpu}}
	c.must(s.Write(filepath.Join(c.state, "state")))
	c.must(s.WriteFiles(c.state))
	return s
}

// loadOthers loads the device plugin and the pod's program.
func (c *installation) loadOthers() {
	c.Helper()
	nvidia, err := build.NVIDIA(c.Context(), build.Options{Out: os.Stderr})
	c.must(err)
	i, err := image.Program("nvidia-device-plugin:trial", filepath.Join(nvidia, "nvidia-device-plugin"))
	c.must(err)
	for _, tool := range []string{"/bin/sh", "/bin/mount"} {
		libraries, err := image.Libraries(tool)
		c.must(err)
		i.Files[tool] = tool
		for _, l := range libraries {
			i.Files[l] = l
		}
	}
	programs, err := build.Node(c.Context(), build.Options{Out: os.Stderr})
	c.must(err)
	probe, err := image.Program("gpuscale-probe:1", filepath.Join(programs.Programs, "probe"))
	c.must(err)
	c.must(c.node.Load(c.Context(), i, probe))
}

// advertised waits for the node's MIG devices, by profile.
func (c *installation) advertised(want map[string]string) {
	c.Helper()
	c.await("the kubelet's MIG devices", func() error {
		var n corev1.Node
		if err := c.env.Admin.Get(c.Context(), client.ObjectKey{Name: c.node.Name()}, &n); err != nil {
			return err
		}
		have := map[string]string{}
		for name, q := range n.Status.Allocatable {
			if profile, ok := mig.ProfileOfResource(string(name)); ok && !q.IsZero() {
				have[profile] = q.String()
			}
		}
		if !maps.Equal(have, want) {
			return fmt.Errorf("it advertises %v, want %v", have, want)
		}
		return nil
	})
}
