//go:build linux

package node

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/node/image"
	"github.com/gpuscale/gpuscale/sandbox/node/keeper"
)

// Names of the node's programs, for Log.
const (
	Containerd = "containerd"
	Kubelet    = "kubelet"
	KubeProxy  = "kube-proxy"
)

const (
	nodeName     = "real" // of the Node object
	startTimeout = 2 * time.Minute
	stopTimeout  = time.Minute
)

// Options of a node. Only Binaries must be set.
type Options struct {
	Binaries build.NodePaths
	Labels   map[string]string
	Taints   []corev1.Taint
	// Kubelet has fields that are added to the kubelet's configuration and override others.
	Kubelet map[string]any

	// Mounts are mounted on the node before its programs start.
	Mounts []Mount
	// Ports of this machine's loopback that pods can reach at Address. The API server's port is always included.
	Ports []int
}

// Mount is a bind mount of Source on the machine to Target on the node.
type Mount = keeper.Mount

// Node is a running node.
type Node struct {
	opts    Options
	cluster *cluster.Cluster
	client  kubernetes.Interface
	root    string // folder with the node's files
	cgroup  string

	keeper  *exec.Cmd
	stdin   io.Closer // closing it ends the node
	stderr  bytes.Buffer
	ended   chan struct{}
	err     error // reason; set before ended is closed
	pid     int   // of the node's first process
	network network

	listeners []net.Listener
	images    atomic.Int64 // loaded so far
	stop      sync.Once
	stopErr   error
}

var nodes atomic.Int64

// Start adds a node to a cluster that was started with Options.Egress, and returns when the node is Ready.
// ctx bounds only the start; end the node with Stop, before the cluster.
func Start(ctx context.Context, c *cluster.Cluster, o Options) (_ *Node, err error) {
	if err := Missing(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s: is the machine very busy?", startTimeout))
	defer cancel()
	n := &Node{opts: o, cluster: c, client: c.Client(), ended: make(chan struct{}), cgroup: keeper.CgroupName(os.Getpid(), int(nodes.Add(1)))}
	n.root = filepath.Join(c.Dir(), "node-"+nodeName)
	if err := os.Mkdir(n.root, 0o755); err != nil {
		return nil, fmt.Errorf("starting node %s: %w", nodeName, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("starting node %s: %w", nodeName, n.explain(err))
			_ = n.Stop()
		}
	}()
	return n, n.bringUp(ctx)
}

func (n *Node) bringUp(ctx context.Context) error {
	if err := n.writeConfigs(n.root, n.cluster); err != nil {
		return err
	}
	if err := n.startKeeper(); err != nil {
		return err
	}
	var err error
	if n.network, err = openNetwork(n.pid); err != nil {
		return err
	}
	api, err := portOf(n.cluster.URL())
	if err != nil {
		return err
	}
	// The keeper may not have set the address yet.
	if err := n.await(ctx, func(context.Context) error { return n.forward(append([]int{api}, n.opts.Ports...)...) }); err != nil {
		return err
	}
	if err := n.cluster.SetEgress(n.Dial); err != nil {
		return err
	}
	if err := n.routeAPI(ctx, api); err != nil {
		return err
	}
	if err := n.await(ctx, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", n.Path(containerdSocket))
		if err == nil {
			conn.Close()
		}
		return err
	}); err != nil {
		return err
	}
	if err := n.Load(ctx, image.Image{
		Name: pauseImage, Files: map[string]string{"/pause": filepath.Join(n.opts.Binaries.Programs, "pause")}, Entrypoint: []string{"/pause"},
	}); err != nil {
		return err
	}
	return n.await(ctx, n.ready)
}

// startKeeper returns as soon as the node's first process runs.
func (n *Node) startKeeper() error {
	config := filepath.Join(n.root, "keeper.json")
	if err := n.keeperConfig().Write(config); err != nil {
		return err
	}
	// The keeper ends the node in order when its standard input ends, which also happens when this process is killed.
	cmd := exec.Command(filepath.Join(n.opts.Binaries.Programs, "node-keeper"), "keep", config)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = &n.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	n.keeper, n.stdin = cmd, stdin
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	go func() {
		if err := cmd.Wait(); err != nil {
			n.err = fmt.Errorf("%w: %s", err, strings.TrimSpace(n.stderr.String()))
		}
		close(n.ended)
	}()
	if readErr != nil {
		<-n.ended
		return fmt.Errorf("it has not begun: %w", n.err)
	}
	n.pid, err = strconv.Atoi(strings.TrimSpace(line))
	return err
}

func (n *Node) keeperConfig() keeper.Config {
	b := n.opts.Binaries
	const bin, ctrd = "/node/kubelet", "/node/containerd"
	labels := make([]string, 0, len(n.opts.Labels))
	for k, v := range n.opts.Labels {
		labels = append(labels, k+"="+v)
	}
	return keeper.Config{
		Name: nodeName, Root: n.root, Cgroup: n.cgroup,
		Address: address + "/32", Routes: []string{cluster.ServiceRange},
		Mounts: append([]Mount{
			{Source: b.Kubelet, Target: bin, ReadOnly: true},
			{Source: b.Containerd, Target: ctrd, ReadOnly: true},
		}, n.opts.Mounts...),
		Programs: []keeper.Program{
			{Name: Containerd, Path: ctrd + "/containerd", Args: []string{"--config=/etc/containerd/config.toml"}},
			{Name: Kubelet, Path: bin + "/kubelet", Socket: containerdSocket, Args: []string{
				"--config=/etc/kubernetes/kubelet.yaml", "--kubeconfig=/etc/kubernetes/kubelet.kubeconfig", "--root-dir=" + kubeletFolder,
				"--hostname-override=" + nodeName, "--node-ip=" + address, "--node-labels=" + strings.Join(labels, ","),
			}},
			{Name: KubeProxy, Path: bin + "/kube-proxy", Args: []string{"--config=/etc/kubernetes/kube-proxy.yaml"}},
		},
	}
}

// await calls done until it returns nil. It returns early if the node ends.
func (n *Node) await(ctx context.Context, done func(context.Context) error) error {
	return await.Until(ctx, func(ctx context.Context) error {
		if err := n.Err(); err != nil {
			return await.Final(err)
		}
		return done(ctx)
	})
}

// routeAPI gives the Service default/kubernetes an endpoint that reaches the API server. It has none by
// default, since an endpoint must not be on the loopback.
func (n *Node) routeAPI(ctx context.Context, port int) error {
	name, number := "https", int32(port)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &number}},
	}
	_, err := n.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, slice, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("leading pods to the API server: %w", err)
	}
	return nil
}

func (n *Node) ready(ctx context.Context) error {
	node, err := n.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !kube.NodeReady(node) {
		return fmt.Errorf("the node is not Ready: %+v", node.Status.Conditions)
	}
	return nil
}

// Stop ends the node and everything on it, and returns when nothing of it is left on this machine. Its Node
// object stays. It can be called more than once. The error says what is left.
func (n *Node) Stop() error {
	n.stop.Do(func() {
		_ = n.cluster.SetEgress(nil)
		for _, l := range n.listeners {
			l.Close()
		}
		if n.network.file != nil {
			n.network.file.Close()
		}
		if n.keeper == nil {
			n.stopErr = os.RemoveAll(n.root)
			return
		}
		n.stdin.Close()
		select {
		case <-n.ended:
			n.stopErr = n.err
		case <-time.After(stopTimeout):
			_ = n.keeper.Process.Kill()
			<-n.ended
			n.stopErr = fmt.Errorf("the node has not ended after %s: %w", stopTimeout, n.err)
		}
	})
	return n.stopErr
}

func portOf(address string) (int, error) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Port())
}
