//go:build tools

// Package containerd pins the versions of containerd, its shim and ctr, which a real node of the sandbox
// runs. It contains no code. The build tags in sandbox/build leave out some snapshotters.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
