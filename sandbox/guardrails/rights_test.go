package guardrails

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

const system = "gpuscale-system"

// typed returns the control plane with a typed client.
func typed(t *testing.T) (*env, kubernetes.Interface) {
	t.Helper()
	e := shared.Get(t)
	return e, e.Cluster.Client()
}

// attempt is one request in testdata/rights.yaml.
type attempt struct {
	What, Says string
	Node       string // node to patch; empty for the pod's own node
	Sub        string // resource of the node
	Pod        string // pod whose status is patched
	Delete     string // pod of gpu-operator to delete
	List       bool   // list all nodes
	Patch      json.RawMessage
}

// onNode sends requests with the node-bound token of a pod.
type onNode struct {
	t     *testing.T
	admin kubernetes.Interface
	own   kubernetes.Interface // client with the pod's token
	node  string
	tries int
}

// TestRightsOnNodes: with the permissions of deploy/manifests/PROGRAM.yaml, a program can do what
// testdata/rights.yaml allows and nothing else. An exporter writes the condition of its own node. An agent
// writes annotations of its own node and restarts the device plugin there.
func TestRightsOnNodes(t *testing.T) {
	text, err := os.ReadFile("testdata/rights.yaml")
	require.NoError(t, err)
	var programs map[string]struct{ Eventually, May, MayNot []attempt }
	require.NoError(t, yaml.UnmarshalStrict(text, &programs))
	for program, rights := range programs {
		t.Run(program, func(t *testing.T) {
			o := newOnNode(t, program)
			for _, a := range rights.Eventually {
				await.True(t, testenv.Patience, a.What+" is refused", func() bool {
					err := o.do(a)
					return err != nil && strings.Contains(err.Error(), a.Says)
				})
			}
			await.For(t, testenv.Patience, "the end of the taint that a new node has", func() error {
				n := o.now()
				if len(n.Spec.Taints) > 0 {
					return fmt.Errorf("it has %v", n.Spec.Taints)
				}
				return nil
			})
			for _, a := range rights.May {
				if err := o.do(a); err != nil {
					t.Errorf("%s: %v", a.What, err)
				}
			}
			before := o.now()
			for _, a := range rights.MayNot {
				if o.do(a) == nil {
					t.Errorf("%s: allowed", a.What)
				}
			}
			n := o.now()
			for _, n := range []*corev1.Node{n, before} { // without the fields that Kubernetes itself writes
				delete(n.Annotations, corev1.ObjectTTLAnnotationKey)
				n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
			}
			if !maps.Equal(n.Labels, before.Labels) || !maps.Equal(n.Annotations, before.Annotations) || n.Spec.String() != before.Spec.String() {
				t.Errorf("the node is now %v %v %v, was %v %v %v", n.Labels, n.Annotations, n.Spec, before.Labels, before.Annotations, before.Spec)
			}
		})
	}
}

// newOnNode applies a file of deploy/manifests, and creates a pod with its service account on the first of
// two nodes, NAME-1 and NAME-2. There are also pods of gpu-operator, and a pending pod.
func newOnNode(t *testing.T, name string) *onNode {
	t.Helper()
	e, admin := typed(t)
	must := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	for i, node := range []string{name + "-1", name + "-2"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{contract.RecordAnnotation: "orders"}}, Spec: corev1.NodeSpec{Unschedulable: i > 0}}
		must(e.Admin.Create(t.Context(), n))
		t.Cleanup(func() { _ = admin.CoreV1().Nodes().Delete(context.Background(), node, metav1.DeleteOptions{}) })
	}
	for _, ns := range []string{system, "gpu-operator"} {
		must(e.Namespace(t.Context(), ns, nil))
		t.Cleanup(func() { // other tests would see them
			if err := e.Admin.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(ns), client.GracePeriodSeconds(0)); err != nil {
				t.Error(err)
			}
		})
	}
	must(e.Apply(t.Context(), "deploy/manifests/"+name+".yaml"))
	account := "gpuscale-" + name
	must(e.Create(t.Context(), strings.NewReplacer("ACCOUNT", account, "PROGRAM", name).Replace(`
{apiVersion: v1, kind: Pod, metadata: {namespace: gpuscale-system, name: on-PROGRAM-1}, spec: {nodeName: PROGRAM-1, serviceAccountName: ACCOUNT, containers: [{name: c, image: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: gpuscale-system, name: pending}, spec: {schedulerName: none, containers: [{name: c, image: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: gpu-operator, name: plugin-1, labels: {app: nvidia-device-plugin-daemonset}}, spec: {nodeName: PROGRAM-1, containers: [{name: c, image: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: gpu-operator, name: plugin-2, labels: {app: nvidia-device-plugin-daemonset}}, spec: {nodeName: PROGRAM-2, containers: [{name: c, image: c}]}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: gpu-operator, name: other-1, labels: {app: something}}, spec: {nodeName: PROGRAM-1, containers: [{name: c, image: c}]}}
`)))
	pod, err := admin.CoreV1().Pods(system).Get(t.Context(), "on-"+name+"-1", metav1.GetOptions{})
	must(err)
	token, err := admin.CoreV1().ServiceAccounts(system).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	must(err)
	config := rest.AnonymousClientConfig(e.Cluster.RESTConfig())
	config.BearerToken = token.Status.Token
	own, err := kubernetes.NewForConfig(config)
	must(err)
	return &onNode{t: t, admin: admin, own: own, node: name + "-1"}
}

// do makes the attempt. A deletion that must be refused is a dry run, so it has no effect even if it is allowed.
func (o *onNode) do(a attempt) error {
	o.tries++
	verb, path := http.MethodPatch, "/api/v1/nodes/"+cmp.Or(a.Node, o.node)
	switch {
	case a.List:
		verb, path = http.MethodGet, "/api/v1/nodes"
	case a.Delete != "":
		verb, path = http.MethodDelete, "/api/v1/namespaces/gpu-operator/pods/"+a.Delete
	case a.Pod != "":
		path = "/api/v1/namespaces/" + system + "/pods/" + a.Pod + "/status"
	case a.Sub != "":
		path += "/" + a.Sub
	}
	r := o.own.CoreV1().RESTClient().Verb(verb).AbsPath(path)
	if a.Patch != nil {
		r.SetHeader("Content-Type", string(types.StrategicMergePatchType)).Body(bytes.ReplaceAll(a.Patch, []byte("TRY"), fmt.Append(nil, "v", o.tries)))
	}
	if a.Delete != "" && a.Says != "" {
		r.Param("dryRun", metav1.DryRunAll)
	}
	return r.Do(o.t.Context()).Error()
}

// now returns the current state of the pod's node.
func (o *onNode) now() *corev1.Node {
	o.t.Helper()
	n, err := o.admin.CoreV1().Nodes().Get(o.t.Context(), o.node, metav1.GetOptions{})
	require.NoError(o.t, err)
	return n
}
