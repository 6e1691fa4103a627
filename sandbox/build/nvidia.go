package build

import "context"

// nvidiaParts are linked lazily: go-nvml looks up the driver's functions when they are called.
var nvidiaParts = target{
	name:   "nvidia",
	title:  "NVIDIA's device plugin and mig-parted",
	module: "sandbox/nvidia",
	args:   []string{"-trimpath", "-ldflags", "-s -w -extldflags=-Wl,-z,lazy -X github.com/NVIDIA/k8s-device-plugin/internal/info.version=v0.19.3"},
	pkgs: []string{
		"github.com/NVIDIA/k8s-device-plugin/cmd/gpu-feature-discovery",
		"github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin",
		"github.com/NVIDIA/mig-parted/cmd/nvidia-mig-manager",
		"github.com/NVIDIA/mig-parted/cmd/nvidia-mig-parted",
	},
	output: "./",
	cgo:    true,
}

// NVIDIA compiles gpu-feature-discovery, nvidia-device-plugin, nvidia-mig-manager and nvidia-mig-parted into
// one folder. It is not part of All, since only tests of a node need them.
func NVIDIA(ctx context.Context, o Options) (dir string, err error) {
	return folder(ctx, o, nvidiaParts)
}
