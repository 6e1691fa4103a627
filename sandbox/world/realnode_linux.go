package world

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/node"
	"github.com/gpuscale/gpuscale/sandbox/node/image"
)

// realTaint keeps other pods off the real node: it has no GPU, and the story is about the nodes that have
// one.
const realTaint = "gpuscale.io/real-node"

// CheckRealNode returns what this machine lacks for a real node.
func CheckRealNode() error { return node.Missing() }

// joinRealNode adds a real node with a server in a real container, which users can inspect.
func (w *World) joinRealNode(ctx, _ context.Context) error {
	if !w.opts.RealNode {
		return nil
	}
	binaries, err := build.Node(ctx, build.Options{Root: w.opts.Binaries.Root})
	if err != nil {
		return err
	}
	n, err := node.Start(ctx, w.Cluster, node.Options{
		Binaries: binaries,
		Taints:   []corev1.Taint{{Key: realTaint, Effect: corev1.TaintEffectNoSchedule}},
	})
	if err != nil {
		return err
	}
	w.stops = append(w.stops, func() {
		if err := n.Stop(); err != nil {
			w.opts.Log.Warn("something of the real node is left", "error", err)
		}
	})
	const server = "gpuscale-probe:1"
	if err := n.Load(ctx, image.Image{
		Name: server, Files: map[string]string{"/probe": filepath.Join(binaries.Programs, "probe")}, Entrypoint: []string{"/probe"},
	}); err != nil {
		return err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "hello"},
		Spec: corev1.PodSpec{
			NodeName:    n.Name(),
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "server", Image: server, Args: []string{"serve", ":8080"}}},
		},
	}
	if err := create(ctx, w.client, pod); err != nil {
		return err
	}
	return w.Cluster.Await(ctx, func(ctx context.Context) error {
		p, err := w.Cluster.Client().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("pod %s is %s", pod.Name, p.Status.Phase)
		}
		return err
	})
}
