package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// Limits of requests to the API server.
const (
	requestTimeout = 10 * time.Second
	watchSeconds   = 300
	firstRetry     = time.Second
	lastRetry      = time.Minute
)

// Cluster makes all the agent's requests to the Kubernetes API.
type Cluster struct {
	client kubernetes.Interface
	node   string
}

// NewCluster returns the Cluster of a node's agent.
func NewCluster(client kubernetes.Interface, node string) *Cluster { return &Cluster{client, node} }

// Node gets the agent's own node.
func (c *Cluster) Node(ctx context.Context) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	node, err := c.client.CoreV1().Nodes().Get(ctx, c.node, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("getting node %s: %w", c.node, err)
	}
	return node, nil
}

// annotate changes annotations of the own node; nil removes one. It fails if the node has changed
// since version, unless version is empty. It patches the node's status: that permission allows
// neither cordons nor taints.
func (c *Cluster) annotate(ctx context.Context, version string, change map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	metadata := map[string]any{"annotations": change}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("annotating node %s: %w", c.node, err)
	}
	_, err = c.client.CoreV1().Nodes().Patch(ctx, c.node, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("annotating node %s: %w", c.node, err)
	}
	return nil
}

// pods lists the pods on the own node that a selector matches.
func (c *Cluster) pods(ctx context.Context, in Pods) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.client.CoreV1().Pods(in.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: in.Selector, FieldSelector: fields.OneTermEqualSelector("spec.nodeName", c.node).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("listing the pods %s in %s: %w", in.Selector, in.Namespace, err)
	}
	return list.Items, nil
}

// remove deletes a pod by UID; a pod that is gone is no error.
func (c *Cluster) remove(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// watch signals changes of the own node until ctx ends. Without a working watch, the agent's period
// remains.
func (c *Cluster) watch(ctx context.Context, changes chan<- struct{}) {
	retry := firstRetry
	for ctx.Err() == nil {
		w, err := c.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{
			FieldSelector:  fields.OneTermEqualSelector("metadata.name", c.node).String(),
			TimeoutSeconds: ptr.To[int64](watchSeconds),
		})
		if err == nil {
			for range w.ResultChan() {
				retry = firstRetry
				select {
				case changes <- struct{}{}:
				default: // one is pending already
				}
			}
			w.Stop()
		}
		// Without a pause, a proxy that closes watches at once would cause a busy loop.
		select {
		case <-ctx.Done():
		case <-time.After(retry + rand.N(retry)):
		}
		retry = min(2*retry, lastRetry)
	}
}
