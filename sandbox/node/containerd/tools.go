//go:build tools

// Package containerd pins containerd, its shim and ctr, which a real node of
// the sandbox runs. It has no code of its own; see the build tags in
// sandbox/build for the snapshotters that are left out.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
