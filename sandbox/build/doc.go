// Package build compiles the programs the sandbox runs but does not contain:
// the control plane (sandbox/controlplane) and Prometheus with promtool
// (sandbox/controlplane/prometheus), and what a real node runs
// (sandbox/node/kubelet, sandbox/node/containerd).
//
// It owns the folder with the binaries, and the progress that is shown during a first compilation. Two
// sandboxes never compile the same target at the same time.
//
// It never downloads a binary and never runs what it has built.
package build
