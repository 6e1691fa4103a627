//go:build linux

package node_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/node"
	"github.com/gpuscale/gpuscale/sandbox/node/image"
)

// operator is the namespace of NVIDIA's components.
const operator = "gpu-operator"

// component is a DaemonSet of the GPU Operator's, with NVIDIA's program over the fake
// driver. Its nodes are chosen by the Operator's label, which mig-manager changes.
type component struct {
	app, program string
	deploy       string // nvidia.com/gpu.deploy.<deploy>; empty: on all nodes
	args         string
	env          map[string]string
	mounts       map[string]string // the node's folders by the container's
	configMap    string            // mounted at /config
}

var devicePlugin = component{
	app: "nvidia-device-plugin-daemonset", program: "nvidia-device-plugin", args: "--mig-strategy=mixed",
	mounts: map[string]string{"/var/lib/kubelet/device-plugins": "/var/lib/kubelet/device-plugins"},
}

// features is the folder in which GPU feature discovery leaves its labels for NFD.
const features = "/etc/kubernetes/node-feature-discovery/features.d"

var featureDiscovery = component{
	app: "gpu-feature-discovery", program: "gpu-feature-discovery",
	args: "--mig-strategy=mixed --use-node-feature-api=false --sleep-interval=1s --output-file=" + features + "/gfd", mounts: map[string]string{features: features},
}

// deployed is the component where the GPU Operator's label has it.
func (p component) deployed(label string) component {
	p.deploy = label
	return p
}

// manifest: a container has a /proc of its own, in which the driver's folder is no file
// of the node, so the machine's files are mounted inside.
func (p component) manifest() string {
	selector := ""
	if p.deploy != "" {
		selector = fmt.Sprintf("nodeSelector: {nvidia.com/gpu.deploy.%s: \"true\"}", p.deploy)
	}
	var env, mounts, volumes strings.Builder
	for _, k := range slices.Sorted(maps.Keys(p.env)) {
		fmt.Fprintf(&env, ", {name: %s, value: %q}", k, p.env[k])
	}
	for i, to := range slices.Sorted(maps.Keys(p.mounts)) {
		fmt.Fprintf(&mounts, "        - {name: mount-%d, mountPath: %s}\n", i, to)
		fmt.Fprintf(&volumes, "      - {name: mount-%d, hostPath: {path: %s, type: DirectoryOrCreate}}\n", i, p.mounts[to])
	}
	if p.configMap != "" {
		mounts.WriteString("        - {name: config, mountPath: /config}\n")
		fmt.Fprintf(&volumes, "      - {name: config, configMap: {name: %s}}\n", p.configMap)
	}
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: DaemonSet
metadata: {namespace: gpu-operator, name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      %[2]s
      serviceAccountName: nvidia
      terminationGracePeriodSeconds: 2
      tolerations: [{operator: Exists}]
      containers:
      - name: main
        image: %[3]s:trial
        command: [/bin/sh, /host/machine/start, /host/machine, /program%[4]s]
        env: [{name: PATH, value: "/bin:/usr/bin"}, {name: LD_LIBRARY_PATH, value: /host/nvml}, {name: FAKENVML_STATE, value: /host/machine/state}, {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}%[5]s]
        securityContext: {privileged: true}
        volumeMounts:
        - {name: machine, mountPath: /host/machine}
        - {name: nvml, mountPath: /host/nvml}
%[6]s      volumes:
      - {name: machine, hostPath: {path: /opt/machine}}
      - {name: nvml, hostPath: {path: /opt/nvml}}
%[7]s`, p.app, selector, p.program, words(p.args), env.String(), mounts.String(), volumes.String())
}

func words(args string) string {
	var out strings.Builder
	for _, a := range strings.Fields(args) {
		fmt.Fprintf(&out, ", %q", a)
	}
	return out.String()
}

// account of NVIDIA's components.
const account = `
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: gpu-operator, name: nvidia}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nvidia}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, list, watch, update, patch]}
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch, delete, deletecollection]}
- {apiGroups: [apps], resources: [daemonsets], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nvidia}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nvidia}
subjects: [{kind: ServiceAccount, namespace: gpu-operator, name: nvidia}]
`

// Layouts of machine; whole is a GPU that is not in MIG mode.
const (
	smalls = "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6"
	whole  = ""
)

// machine has idle H100s with these layouts.
func (c *installation) machine(layouts ...string) fakenvml.State {
	c.Helper()
	table, _ := mig.ForModel("H100-80GB")
	s := fakenvml.State{Driver: "580.159.03"}
	for i, text := range layouts {
		gpu := fakenvml.GPU{
			UUID: fakenvml.GPUUUID(i), Name: "NVIDIA H100 80GB HBM3", Minor: i, MemoryMiB: 81559, Spec: table.Spec(), MIG: text != whole, GPM: true, XIDs: fakenvml.XIDs(),
		}
		if text != whole {
			layout, err := mig.ParseLayout(table, text)
			c.must(err)
			for k, p := range layout {
				gpu.Instances = append(gpu.Instances, fakenvml.Instance{ID: k + 1, Placement: p, Computes: fakenvml.Whole(fakenvml.MIGUUID(i, k))})
			}
		}
		s.GPUs = append(s.GPUs, gpu)
	}
	c.must(s.Write(filepath.Join(c.state, "state")))
	c.must(s.WriteFiles(c.state))
	c.must(os.WriteFile(filepath.Join(c.state, "start"), []byte(fakenvml.OnMachine), 0o644))
	return s
}

// startGPUNode starts a node with the machine, NVIDIA's programs and the test pods'.
func (c *installation) startGPUNode(o node.Options) {
	c.Helper()
	library, err := fakenvml.Build(c.Context(), c.cache())
	c.must(err)
	o.Mounts = append(o.Mounts, node.Mount{Source: library, Target: "/opt/nvml"}, node.Mount{Source: c.state, Target: "/opt/machine"})
	c.startNode(o)
	nvidia, err := build.NVIDIA(c.Context(), build.Options{Out: os.Stderr})
	c.must(err)
	for _, program := range []string{devicePlugin.program, featureDiscovery.program, "nvidia-mig-manager"} {
		i, err := image.Program(program+":trial", filepath.Join(nvidia, program))
		c.must(err)
		// mig-manager runs it.
		i.Files["/usr/bin/nvidia-mig-parted"] = filepath.Join(nvidia, "nvidia-mig-parted")
		for _, tool := range []string{"/bin/sh", "/bin/mount", "/bin/mkdir", "/bin/ln", "/bin/cp"} {
			libraries, err := image.Libraries(tool)
			c.must(err)
			for _, file := range append(libraries, tool) {
				i.Files[file] = file
			}
		}
		c.must(c.node.Load(c.Context(), i))
	}
	programs, err := build.Node(c.Context(), build.Options{Out: os.Stderr})
	c.must(err)
	probe, err := image.Program("gpuscale-probe:1", filepath.Join(programs.Programs, "probe"))
	c.must(err)
	c.must(c.node.Load(c.Context(), probe))
	c.must(c.env.Create(c.Context(), account))
}

// allocated are the devices that the kubelet has allocated to a pod, without the
// number of a shared device's replica.
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
