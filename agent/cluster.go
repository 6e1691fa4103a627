package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/internal/kube"
)

// Limits of requests to the API server.
const (
	requestTimeout = 10 * time.Second
	watchSeconds   = 300
	lastRetry      = time.Minute
)

var retries = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Steps: 10, Cap: lastRetry}

// Cluster makes all the agent's requests to the Kubernetes API, without a clientset: the types of
// all groups would take memory on each node.
type Cluster struct {
	api    rest.Interface
	params runtime.ParameterCodec
	node   string
}

// newCluster returns the Cluster of a node's agent.
func newCluster(to *rest.Config, node string) (*Cluster, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	to = rest.CopyConfig(to)
	to.APIPath, to.GroupVersion = "/api", &corev1.SchemeGroupVersion
	to.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	api, err := rest.RESTClientFor(to)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &Cluster{api, runtime.NewParameterCodec(scheme), node}, nil
}

// Node gets the agent's own node.
func (c *Cluster) Node(ctx context.Context) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := c.api.Get().Timeout(requestTimeout).Resource("nodes").Name(c.node).Do(ctx).Into(node); err != nil {
		return nil, fmt.Errorf("getting node %s: %w", c.node, err)
	}
	return node, nil
}

// annotate changes annotations of the own node; nil removes one. It fails if the node has changed since version, unless
// version is empty. It patches the node's status: the right to do that includes neither cordons nor taints.
func (c *Cluster) annotate(ctx context.Context, version string, change map[string]any) error {
	metadata := map[string]any{"annotations": change}
	if version != "" {
		metadata["resourceVersion"] = version
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("annotating node %s: %w", c.node, err)
	}
	err = c.api.Patch(types.MergePatchType).Timeout(requestTimeout).Resource("nodes").Name(c.node).SubResource("status").Body(body).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("annotating node %s: %w", c.node, err)
	}
	return nil
}

// pods lists the pods on the own node that a selector matches.
func (c *Cluster) pods(ctx context.Context, in Pods) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := c.api.Get().Timeout(requestTimeout).Namespace(in.Namespace).Resource("pods").VersionedParams(&metav1.ListOptions{
		LabelSelector: in.Selector, FieldSelector: fields.OneTermEqualSelector("spec.nodeName", c.node).String(),
	}, c.params).Do(ctx).Into(&list)
	if err != nil {
		return nil, fmt.Errorf("listing the pods %s in %s: %w", in.Selector, in.Namespace, err)
	}
	return list.Items, nil
}

// remove deletes a pod by UID; a pod that is gone is no error.
func (c *Cluster) remove(ctx context.Context, pod *corev1.Pod) error {
	err := c.api.Delete().Timeout(requestTimeout).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// watch signals changes of the own node until ctx ends. While no watch works, the agent still ticks once per period.
func (c *Cluster) watch(ctx context.Context, changes chan<- struct{}) {
	// Without a pause, a proxy that closes watches at once would cause a busy loop.
	_ = retries.DelayWithReset(clock.RealClock{}, lastRetry).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		w, err := c.api.Get().Resource("nodes").VersionedParams(&metav1.ListOptions{
			Watch:          true,
			FieldSelector:  fields.OneTermEqualSelector("metadata.name", c.node).String(),
			TimeoutSeconds: ptr.To[int64](watchSeconds),
		}, c.params).Watch(ctx)
		if err != nil {
			return false, nil
		}
		defer w.Stop()
		for range w.ResultChan() {
			select {
			case changes <- struct{}{}:
			default: // one is pending already
			}
		}
		return false, nil
	})
}

// pluginPause is the backoff between checks of a restarting device plugin.
var pluginPause = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Steps: 10, Cap: 500 * time.Millisecond}

// maxPlugins bounds the device plugin's pods on a node: a selector that matches more is wrong.
const maxPlugins = 4

// plugins returns the UIDs of the device plugin's pods on the node. There must be one: without it
// the new layout is never advertised.
func (a *Agent) plugins(ctx context.Context) ([]string, error) {
	pods, err := a.o.Cluster.pods(ctx, a.o.Config.DevicePlugin)
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("no pod %s in namespace %s runs on this node: is devicePlugin right?",
			a.o.Config.DevicePlugin.Selector, a.o.Config.DevicePlugin.Namespace)
	}
	if len(pods) > maxPlugins {
		return nil, fmt.Errorf("%d pods %s in namespace %s run on this node, at most %d are restarted: is devicePlugin right?",
			len(pods), a.o.Config.DevicePlugin.Selector, a.o.Config.DevicePlugin.Namespace, maxPlugins)
	}
	uids := make([]string, len(pods))
	for i := range pods {
		uids[i] = string(pods[i].UID)
	}
	slices.Sort(uids)
	return uids, nil
}

// replacePlugins deletes the device plugin's pods with these UIDs and waits until new ones are
// ready.
func (a *Agent) replacePlugins(ctx context.Context, old []string) error {
	defer a.o.Metrics.timed(verbPlugin, time.Now())
	ctx, cancel := context.WithTimeout(ctx, a.o.Config.PluginTimeout.Duration)
	defer cancel()
	var last error
	err := pluginPause.DelayFunc().Until(ctx, true, false, func(ctx context.Context) (fresh bool, _ error) {
		fresh, last = a.replaced(ctx, old)
		return fresh && last == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case last != nil:
		return fmt.Errorf("restarting the device plugin: %w", last)
	}
	return fmt.Errorf("the device plugin is not ready again after %s", a.o.Config.PluginTimeout.Duration)
}

// replaced deletes those of the device plugin's pods that are old; fresh reports whether another
// one is ready.
func (a *Agent) replaced(ctx context.Context, old []string) (fresh bool, err error) {
	pods, err := a.o.Cluster.pods(ctx, a.o.Config.DevicePlugin)
	for i := range pods {
		switch p := &pods[i]; {
		case p.DeletionTimestamp != nil:
		case slices.Contains(old, string(p.UID)):
			err = a.o.Cluster.remove(ctx, p)
		default:
			fresh = fresh || kube.PodReady(p)
		}
	}
	return fresh, err
}
