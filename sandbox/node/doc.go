// Package node joins one real node to the sandbox's control plane: kubelet,
// kube-proxy, containerd, runc and CNI plugins, in network, mount, process, IPC and
// host-name namespaces of their own (package keeper). Containers run, Services lead
// to them, probes, logs and exec work.
//
// The machine's network stays as it is: the node has no link to it. The API server
// reaches the node, its pods and the Services through the cluster's egress, and the
// node reaches the API server at the address that the machine does.
//
// There is no DNS and no registry: images come from Load, names of Services are
// replaced by their addresses.
//
// It needs root and the programs that Missing names, and leaves nothing behind: no
// process, mount, cgroup, network namespace or file, even when the sandbox is killed.
package node
