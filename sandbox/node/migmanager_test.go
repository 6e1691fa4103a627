//go:build linux

package node_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/sandbox/node"
	"github.com/gpuscale/gpuscale/sandbox/node/nodetest"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// bus is the configuration of a D-Bus daemon that accepts every client.
const bus = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path=%s</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/><allow user="*"/></policy></busconfig>
`

// TestMIGManager: NVIDIA's mig-manager repartitions a GPU for a pod. Then a change fails and is rolled back,
// and the node offers the same devices as before. The next attempt succeeds.
func TestMIGManager(t *testing.T) {
	nodetest.Only(t)
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("mig-manager requires a D-Bus: apt-get install -y --no-install-recommends dbus-daemon")
	}
	c := newInstallation(t)
	c.state = t.TempDir()
	c.machine(smalls)
	c.startBus()
	c.startGPUNode(node.Options{
		Labels: map[string]string{
			"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "1",
			"nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "mixed", "gpuscale.io/pool": "rack", "nvidia.com/mig.config": "smalls",
			"nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/gpu.deploy.gpu-feature-discovery": "true", "nvidia.com/gpu.deploy.dcgm-exporter": "true",
		},
		// The kubelet updates mounted ConfigMaps when it syncs a pod.
		Kubelet: map[string]any{"syncFrequency": "2s"},
	})
	c.load("exporter", "autoscaler")
	c.values = `
exporter:
  source: nvml` + withDriver + `
autoscaler:
  enabled: true
  replicas: 1
  migManager: {configDelay: 10s}
  config: {idleInterval: 1s, policy: {repartitionCooldown: 1s}, prometheus: {interval: 1s, maxAge: 15s}}
`
	c.create("mig-manager.yaml")
	c.create("device-plugin.yaml", "SELECTOR", deployed("device-plugin"))
	c.create("gpu-feature-discovery.yaml", "SELECTOR", deployed("gpu-feature-discovery"))
	defer c.tells("get node real -o yaml", "logs deployment/gpuscale-autoscaler", "-n gpu-operator logs daemonset/nvidia-mig-manager", "-n gpu-operator get pods")
	c.install()
	c.scrape()
	c.create("rack.yaml", "ACTUATOR", "mig-manager")
	c.offers(map[string]string{"nvidia.com/mig-1g.10gb": "7"})
	c.create("big.yaml", "NAME", "big", "RESOURCE", "nvidia.com/mig-3g.40gb")
	// The exporter's pod is removed during the change; afterwards there is a new one.
	c.eventually("big runs", func() error { c.rescrape(); return c.ready("big") })

	c.must(c.env.Delete(t.Context(), testenv.Object("v1/Pod", installed, "big")))
	layout := c.layout()
	now, err := fakenvml.Read(filepath.Join(c.state, "state"))
	c.must(err)
	now.Lines = fakenvml.Lines{"fail.nvmlDeviceCreateGpuInstance": "999", "fail.nvmlDeviceCreateGpuInstanceWithPlacement": "999"}
	c.must(now.Write(filepath.Join(c.state, "state")))
	c.create("big.yaml", "NAME", "huge", "RESOURCE", "nvidia.com/mig-7g.80gb")
	c.eventually("a failed change", func() error {
		c.rescrape()
		return c.label("nvidia.com/mig.config.state", "failed")
	})
	if now, err = fakenvml.Read(filepath.Join(c.state, "state")); err == nil {
		now.Lines = nil
		err = now.Write(filepath.Join(c.state, "state"))
	}
	c.must(err)
	c.eventually("huge runs, after the change was taken back", func() error { c.rescrape(); return c.ready("huge") })
	if now := c.layout(); now == layout {
		t.Errorf("the GPU has %s before and after", now)
	}
	var n corev1.Node
	c.must(c.env.Admin.Get(t.Context(), client.ObjectKey{Name: c.node.Name()}, &n))
	for name, value := range n.Labels {
		if strings.HasPrefix(name, "nvidia.com/gpu.deploy.") && value != "true" {
			t.Errorf("%s=%s is left", name, value)
		}
	}
}

// startBus starts the machine's D-Bus.
func (c *installation) startBus() {
	c.Helper()
	dir := filepath.Join(c.state, "run/dbus")
	c.must(os.MkdirAll(dir, 0o755))
	config := filepath.Join(c.TempDir(), "bus.conf")
	c.must(os.WriteFile(config, fmt.Appendf(nil, bus, filepath.Join(dir, "system_bus_socket")), 0o600))
	cmd := exec.CommandContext(c.Context(), "dbus-daemon", "--nofork", "--config-file="+config)
	cmd.Stderr = os.Stderr
	c.must(cmd.Start())
	c.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// eventually waits for results that take several changes of the node. The autoscaler's own deadlines bound
// each change.
func (c *installation) eventually(what string, done func() error) {
	c.Helper()
	await.For(c, 4*patience, what, func() error {
		if err := c.node.Err(); err != nil {
			return await.Final(err)
		}
		return done()
	})
}

func (c *installation) ready(name string) error {
	p, err := c.pod(name)
	if err != nil {
		return err
	}
	if kube.PodReady(&p) {
		return nil
	}
	return fmt.Errorf("it is not Ready: %s %+v", p.Status.Phase, p.Status.Conditions)
}

// rescrape makes Prometheus scrape the current pod of the exporter, if there is one.
func (c *installation) rescrape() {
	for _, p := range c.pods() {
		if p.Labels["app.kubernetes.io/component"] == "exporter" && p.Status.PodIP != "" && p.DeletionTimestamp == nil && p.Name != c.scraped {
			c.scrape()
		}
	}
}

func (c *installation) label(name, want string) error {
	var n corev1.Node
	if err := c.env.Admin.Get(c.Context(), client.ObjectKey{Name: c.node.Name()}, &n); err != nil {
		return err
	}
	if n.Labels[name] != want {
		return errors.New(name + "=" + n.Labels[name])
	}
	return nil
}

// layout returns the layout of the machine's first GPU.
func (c *installation) layout() string {
	c.Helper()
	now, err := fakenvml.Read(filepath.Join(c.state, "state"))
	c.must(err)
	layout, _ := now.GPUs[0].Layout()
	return fmt.Sprint(layout)
}

// tells logs the output of kubectl commands if the test has failed.
func (c *installation) tells(commands ...string) {
	if !c.Failed() {
		return
	}
	for _, command := range commands {
		out, _ := c.kubectl(strings.Fields(command)...)
		c.Logf("kubectl %s:\n%s", command, out)
	}
}
