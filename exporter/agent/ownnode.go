package agent

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/exporter/pods"
)

// watchFor is how long the API server keeps one watch, in seconds.
var watchFor int64 = 300

// ownNode is the Kubernetes API as far as this node may reach it. Its methods
// are all the requests that the agent makes.
type ownNode struct {
	api   *pods.API
	name  string
	count func(kind string, err error) // is called for each write
}

func (o *ownNode) path() string { return "/api/v1/nodes/" + o.name }

// condition reads the condition GPUHealthy; zero where absent. It reads the whole Node: reading only
// the status would require another right.
func (o *ownNode) condition(ctx context.Context) (corev1.NodeCondition, error) {
	var node corev1.Node
	if err := o.api.Read(ctx, o.path(), nil, &node); err != nil {
		return corev1.NodeCondition{}, err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == ConditionType {
			return c, nil
		}
	}
	return corev1.NodeCondition{}, nil
}

// watch gives the Node's annotations now, and its changes since.
func (o *ownNode) watch(ctx context.Context) (now map[string]string, changes watch.Interface, err error) {
	nodes := o.api.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
	node, err := nodes.Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	changes, err = nodes.Watch(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + o.name, ResourceVersion: node.ResourceVersion, TimeoutSeconds: &watchFor,
	})
	return node.Annotations, changes, err
}

// patchStatus merges a patch into the Node through its status subresource. That
// may change metadata too, such as our annotation, but nothing of the spec: no
// taint, no cordon.
func (o *ownNode) patchStatus(ctx context.Context, kind string, patch any) error {
	return o.send(ctx, kind, o.api.Patch(types.StrategicMergePatchType).AbsPath(o.path()+"/status"), patch)
}

// createEvent adds an Event. Events of Nodes are in the namespace default.
func (o *ownNode) createEvent(ctx context.Context, event *corev1.Event) error {
	return o.send(ctx, "event", o.api.Post().AbsPath("/api/v1/namespaces/default/events"), event)
}

func (o *ownNode) send(ctx context.Context, kind string, to *rest.Request, body any) error {
	content, err := json.Marshal(body)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, pods.Timeout)
		defer cancel()
		err = to.Body(content).Do(ctx).Error()
	}
	if err != nil {
		err = fmt.Errorf("writing the %s of the node %s: %w", kind, o.name, err)
	}
	o.count(kind, err)
	return err
}
