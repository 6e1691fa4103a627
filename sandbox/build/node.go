package build

import "context"

// kubelet is a target of its own, since few tests need it. Its module has the control plane's versions, so
// Go's build cache contains most of its packages already.
var kubelet = target{
	name:   "kubelet",
	title:  "the kubelet and kube-proxy",
	module: "sandbox/node/kubelet",
	args:   []string{"-trimpath", "-ldflags", versionFlags()},
	pkgs:   []string{"."},
	output: "node",
	links:  map[string]string{"kubelet": "node", "kube-proxy": "node"},
}

// containerd is built without snapshotters that require a file system of their own.
var containerd = target{
	name:   "containerd",
	title:  "containerd",
	module: "sandbox/node/containerd",
	args:   []string{"-trimpath", "-tags", "no_btrfs no_devmapper no_zfs no_aufs", "-ldflags", "-s -w"},
	pkgs: []string{
		"github.com/containerd/containerd/v2/cmd/containerd",
		"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
		"github.com/containerd/containerd/v2/cmd/ctr",
	},
	output: "./",
}

// nodePrograms are static binaries: the node's first process, and programs inside images.
var nodePrograms = target{
	name:   "node-programs",
	title:  "the node's own programs",
	args:   []string{"-trimpath", "-ldflags", "-s -w"},
	pkgs:   []string{"./sandbox/node/keeper/node-keeper", "./sandbox/node/image/pause", "./sandbox/node/image/probe"},
	output: "./",
}

// NodePaths are the folders of the programs of a real node.
type NodePaths struct {
	Kubelet    string // kubelet and kube-proxy
	Containerd string // containerd, containerd-shim-runc-v2 and ctr
	Programs   string // node-keeper; pause and probe, which go into images
}

// Node compiles the programs of a real node. It is not part of All, since only tests of such a node need it.
func Node(ctx context.Context, o Options) (NodePaths, error) {
	var p NodePaths
	var err error
	for to, t := range map[*string]target{&p.Kubelet: kubelet, &p.Containerd: containerd, &p.Programs: nodePrograms} {
		if *to, err = folder(ctx, o, t); err != nil {
			return NodePaths{}, err
		}
	}
	return p, nil
}
