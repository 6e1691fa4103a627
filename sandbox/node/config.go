//go:build linux

package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// Addresses of the node's own network. They are in none of the ranges of the
// cluster's Services and KWOK's pods.
const (
	address  = "10.126.0.1"
	podRange = "10.127.0.0/24"
)

const pauseImage = "gpuscale-pause:1"

// Sockets and folders on the node.
const (
	containerdSocket = "/run/containerd/containerd.sock"
	kubeletFolder    = "/var/lib/kubelet"
)

// A name is asked of a server that is not there, so that its lookup fails at once.
const resolver = "127.0.0.1"

// object is a configuration file as JSON, which is YAML.
type object map[string]any

// writeConfigs writes the files of the node's programs below root/etc.
func (n *Node) writeConfigs(root string, c *cluster.Cluster) error {
	kubelet, err := kubeconfigOf(c, "system:node:"+n.opts.Name, "system:nodes")
	if err != nil {
		return err
	}
	proxy, err := kubeconfigOf(c, "system:kube-proxy")
	if err != nil {
		return err
	}
	files := map[string]any{
		"kubernetes/ca.crt":                c.CA(),
		"kubernetes/kubelet.kubeconfig":    kubelet,
		"kubernetes/kube-proxy.kubeconfig": proxy,
		"kubernetes/kubelet.yaml":          n.kubeletConfig(),
		"kubernetes/kube-proxy.yaml":       proxyConfig(n.opts.Name),
		"containerd/config.toml":           []byte(containerdConfig()),
		"cni/net.d/10-bridge.conflist":     networkConfig(),
		"resolv.conf":                      []byte("nameserver " + resolver + "\n"),
		"hosts":                            []byte("127.0.0.1 localhost\n" + address + " " + n.opts.Name + "\n"),
		"passwd":                           []byte("root:x:0:0:root:/root:/bin/sh\n"),
		"group":                            []byte("root:x:0:\n"),
	}
	for name, content := range files {
		data, ok := content.([]byte)
		if !ok {
			if data, err = json.Marshal(content); err != nil {
				return fmt.Errorf("writing the node's %s: %w", name, err)
			}
		}
		file := filepath.Join(root, "etc", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("writing the node's %s: %w", name, err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			return fmt.Errorf("writing the node's %s: %w", name, err)
		}
	}
	return nil
}

func kubeconfigOf(c *cluster.Cluster, user string, groups ...string) ([]byte, error) {
	path, err := c.KubeconfigFor(user, groups...)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func (n *Node) kubeletConfig() object {
	config := object{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"authentication":           object{"anonymous": object{"enabled": false}, "webhook": object{"enabled": true}, "x509": object{"clientCAFile": "/etc/kubernetes/ca.crt"}},
		"authorization":            object{"mode": "Webhook"},
		"address":                  address,
		"healthzBindAddress":       address,
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               "/" + n.cgroup,
		"failCgroupV1":             false,
		"failSwapOn":               false,
		"resolvConf":               "/etc/resolv.conf",
		"clusterDNS":               []string{resolver},
		"clusterDomain":            "cluster.local",
		"volumePluginDir":          kubeletFolder + "/volume-plugins",
		// The machine's disk and memory are not the node's alone.
		"evictionHard":                object{"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%"},
		"imageGCHighThresholdPercent": 100,
		"registerWithTaints":          n.opts.Taints,
	}
	for key, value := range n.opts.Kubelet {
		config[key] = value
	}
	return config
}

func proxyConfig(name string) object {
	return object{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"clientConnection":   object{"kubeconfig": "/etc/kubernetes/kube-proxy.kubeconfig"},
		"mode":               "iptables",
		"clusterCIDR":        podRange,
		"hostnameOverride":   name,
		"bindAddress":        address,
		"healthzBindAddress": address + ":10256",
		"metricsBindAddress": address + ":10249",
		// Answers between pods of one bridge pass its address translation.
		"iptables": object{"masqueradeAll": true, "minSyncPeriod": "100ms"},
		// The machine's kernel keeps its limits.
		"conntrack": object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
}

func containerdConfig() string {
	return fmt.Sprintf(`version = 4
imports = []
[grpc]
  address = %[1]q
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = 'docker.io/library/%[2]s'
[plugins.'io.containerd.cri.v1.runtime']
  # Without CAP_SYS_RESOURCE no process may be made dearer than its parent.
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [%[3]q]
[plugins.'io.containerd.nri.v1.nri']
  disable = true
`, containerdSocket, pauseImage, plugins())
}

func networkConfig() object {
	return object{
		"cniVersion": "1.0.0", "name": "pods", "plugins": []object{
			{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
				"ipam": object{
					"type": "host-local", "ranges": [][]object{{{"subnet": podRange}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}
}
