//go:build linux

package node

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// Addresses of the node's own network. They overlap with none of the ranges of the cluster's Services and
// KWOK's pods.
const (
	address  = "10.126.0.1"
	podRange = "10.127.0.0/24"
)

// These values are also in the files below etc.
const (
	pauseImage       = "gpuscale-pause:1"
	containerdSocket = "/run/containerd/containerd.sock"
	kubeletFolder    = "/var/lib/kubelet"
)

// etc contains the configuration files of the node's programs, with words that writeConfigs replaces.
//
//go:embed etc
var etc embed.FS

// writeConfigs writes these files below root/etc, and the files that are specific to this cluster.
func (n *Node) writeConfigs(root string, c *cluster.Cluster) error {
	words := strings.NewReplacer("ADDRESS", address, "POD_RANGE", podRange, "NAME", nodeName, "CGROUP", n.cgroup, "CNI_PLUGINS", plugins())
	files := map[string][]byte{"etc/kubernetes/ca.crt": c.CA()}
	err := fs.WalkDir(etc, "etc", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := etc.ReadFile(path)
		files[path] = []byte(words.Replace(string(text)))
		return err
	})
	if err != nil {
		return err
	}
	if files["etc/kubernetes/kubelet.kubeconfig"], err = kubeconfigOf(c, "system:node:"+nodeName, "system:nodes"); err != nil {
		return err
	}
	if files["etc/kubernetes/kube-proxy.kubeconfig"], err = kubeconfigOf(c, "system:kube-proxy"); err != nil {
		return err
	}
	const kubelet = "etc/kubernetes/kubelet.yaml"
	config := map[string]any{}
	if err := yaml.Unmarshal(files[kubelet], &config); err != nil {
		return err
	}
	config["registerWithTaints"] = n.opts.Taints
	maps.Copy(config, n.opts.Kubelet)
	if files[kubelet], err = yaml.Marshal(config); err != nil {
		return err
	}
	for name, text := range files {
		file := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, text, 0o644)
		}
		if err != nil {
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
