// Package node adds one real node to the sandbox's control plane: kubelet, kube-proxy, containerd, runc and
// CNI plugins, in their own network, mount, process, IPC and host-name namespaces (package keeper).
// Containers run, Services reach them, and probes, logs and exec work.
//
// The machine's network does not change: the node has no link to it. The API server reaches the node, its
// pods and Services through the cluster's egress. The node reaches the API server at the same address as the
// machine does.
//
// There is no DNS and no registry. Images are loaded with Load, and addresses replace the names of Services.
//
// It requires root and the programs that Missing names. It leaves nothing behind: no process, mount, cgroup,
// network namespace or file, even if the sandbox is killed.
package node
