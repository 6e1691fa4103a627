package act

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// pool reads the action's pool from the API server; nil for an action on a node
// without a pool.
func (a *Actor) pool(ctx context.Context, name string) (*v1alpha1.GPUNodePool, error) {
	if name == "" {
		return nil, nil
	}
	var pool v1alpha1.GPUNodePool
	if err := a.o.Live.Get(ctx, client.ObjectKey{Name: name}, &pool); err != nil {
		return nil, fmt.Errorf("getting GPUNodePool %s: %w", name, err)
	}
	return &pool, nil
}

// onNode reads a node and calls do with it, again after a conflict: kubelet and the node lifecycle
// controller write to it as well.
func (a *Actor) onNode(ctx context.Context, name string, do func(*corev1.Node) error) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		var node corev1.Node
		if err := a.o.Live.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return fmt.Errorf("getting node %s: %w", name, err)
		}
		return do(&node)
	})
}

// onSeen is onNode for the node of the snapshot; it refuses another node of that name.
func (a *Actor) onSeen(ctx context.Context, r *reconcile, name string, do func(*corev1.Node) error) error {
	seen, ok := r.nodes[name]
	if !ok {
		return refuse("node %s was not in the snapshot", name)
	}
	return a.onNode(ctx, name, func(node *corev1.Node) error {
		if string(node.UID) != seen.UID {
			return refuse("node %s was recreated after the snapshot", name)
		}
		return do(node)
	})
}

// gpuPods returns the pods with GPUs on a node, sorted, in the form of a record (contract.PodOf).
func (a *Actor) gpuPods(ctx context.Context, node string) ([]string, error) {
	pods, err := a.podsOn(ctx, node)
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range pods {
		// An unreadable demand may include the GPU.
		if d, err := demand.FromResources(kube.ExtendedRequests(&pods[i])); err != nil || !d.Zero() {
			out = append(out, contract.PodOf(pods[i].Namespace, pods[i].Name, string(pods[i].UID)))
		}
	}
	slices.Sort(out)
	return out, nil
}

// podsOn returns the pods on a node that have not ended.
func (a *Actor) podsOn(ctx context.Context, node string) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := a.o.Live.List(ctx, &list, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, fmt.Errorf("listing pods on node %s: %w", node, err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return kube.IsOver(&p) }), nil
}

// setCordon makes a node unschedulable and annotates the reason. It does not change a node that is
// cordoned already.
func setCordon(n *corev1.Node, why string) {
	if n.Spec.Unschedulable {
		return
	}
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.CordonAnnotation, why)
	n.Spec.Unschedulable = true
}
