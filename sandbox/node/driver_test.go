//go:build linux

package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/node"
	"github.com/gpuscale/gpuscale/sandbox/node/image"
)

// operator is the namespace of NVIDIA's components.
const operator = "gpu-operator"

// features is the folder into which GPU feature discovery writes its labels for NFD.
const features = "/etc/kubernetes/node-feature-discovery/features.d"

// anyNode and deployed are node selectors for NVIDIA's components: every node, or nodes with the GPU
// Operator's label for the component.
const anyNode = "{}"

func deployed(component string) string {
	return fmt.Sprintf(`{nvidia.com/gpu.deploy.%s: "true"}`, component)
}

// MIG layouts for machine; whole is a GPU that is not in MIG mode.
const (
	smalls = "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6"
	whole  = "-"
)

// machine returns the state of idle H100s with these layouts.
func (c *installation) machine(layouts ...string) fakenvml.State {
	c.Helper()
	s := fakenvml.State{Driver: "580.159.03"}
	for i, text := range layouts {
		gpu, err := fakenvml.Product(i, "H100-80GB", text)
		c.must(err)
		gpu.Name, gpu.MemoryMiB, gpu.GPM, gpu.XIDs = "NVIDIA H100 80GB HBM3", 81559, true, fakenvml.XIDs()
		s.GPUs = append(s.GPUs, gpu)
	}
	c.must(s.Write(filepath.Join(c.state, "state")))
	c.must(s.WriteFiles(c.state))
	c.must(os.WriteFile(filepath.Join(c.state, "start"), []byte(fakenvml.OnMachine), 0o644))
	c.must(os.WriteFile(filepath.Join(c.state, "plugin.yaml"), []byte("version: v1\n"), 0o644))
	return s
}

// startGPUNode starts a node with this machine, and loads NVIDIA's programs and the test pods' images.
func (c *installation) startGPUNode(o node.Options) {
	c.Helper()
	library, err := fakenvml.Build(c.Context(), c.cache())
	c.must(err)
	o.Mounts = append(o.Mounts, node.Mount{Source: library, Target: "/opt/nvml"}, node.Mount{Source: c.state, Target: "/opt/machine"})
	c.startNode(o)
	nvidia, err := build.NVIDIA(c.Context(), build.Options{Out: os.Stderr})
	c.must(err)
	for _, program := range []string{"nvidia-device-plugin", "gpu-feature-discovery", "nvidia-mig-manager"} {
		i := c.onMachine(program, filepath.Join(nvidia, program))
		// mig-manager runs this program.
		i.Files["/usr/bin/nvidia-mig-parted"] = filepath.Join(nvidia, "nvidia-mig-parted")
		c.must(c.node.Load(c.Context(), i))
	}
	programs, err := build.Node(c.Context(), build.Options{Out: os.Stderr})
	c.must(err)
	probe, err := image.Program("gpuscale-probe:1", filepath.Join(programs.Programs, "probe"))
	c.must(err)
	c.must(c.node.Load(c.Context(), probe))
	c.create("nvidia-account.yaml")
}

// onMachine returns the image NAME:trial of one of NVIDIA's programs, with the tools of fakenvml.OnMachine.
func (c *installation) onMachine(name, program string) image.Image {
	c.Helper()
	i, err := image.Program(name+":trial", program)
	c.must(err)
	for _, tool := range []string{"/bin/sh", "/bin/mount", "/bin/mkdir", "/bin/ln", "/bin/cp", "/bin/true"} {
		libraries, err := image.Libraries(tool)
		c.must(err)
		for _, file := range append(libraries, tool) {
			i.Files[file] = file
		}
	}
	return i
}

// allocated returns the devices that the kubelet has allocated to a pod, without the replica number of a
// shared device.
func (c *installation) allocated(pod string) []string {
	c.Helper()
	var out []string
	for _, p := range c.podResources() {
		if p.Namespace != installed || p.Name != pod {
			continue
		}
		for _, container := range p.Containers {
			for _, d := range container.Devices {
				for _, id := range d.DeviceIds {
					id, _, _ = strings.Cut(id, "::")
					out = append(out, id)
				}
			}
		}
	}
	return out
}
