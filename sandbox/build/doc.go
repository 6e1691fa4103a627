// Package build compiles the programs the sandbox runs but does not contain:
// the control plane (sandbox/controlplane) and Prometheus with promtool
// (sandbox/controlplane/prometheus), and what a real node runs
// (sandbox/node/kubelet, sandbox/node/containerd).
//
// It owns the folder they are kept in and the progress shown while a newcomer
// waits for the first compilation. Two sandboxes never compile the same thing at once.
//
// It never downloads a binary and never runs what it has built.
package build
