package cluster_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/agent"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

const (
	system    = "gpuscale-system"
	condition = `{"status":{"conditions":[{"type":"GPUHealthy","status":"True","reason":"AllHealthy","message":""}]}}`
)

// onNode is what a pod with the token of its node may do there.
type onNode struct {
	t     *testing.T
	admin kubernetes.Interface
	own   kubernetes.Interface // the pod's
	node  string
}

// newOnNode applies one of deploy/manifests and makes a pod with its account on the
// first of two nodes, NAME-1 and NAME-2.
func newOnNode(t *testing.T, manifest, name string) onNode {
	t.Helper()
	c, admin := start(t)
	for i, node := range []string{name + "-1", name + "-2"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{partition.RecordAnnotation: "orders"}}, Spec: corev1.NodeSpec{Unschedulable: i > 0}}
		if _, err := admin.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.CoreV1().Nodes().Delete(context.Background(), node, metav1.DeleteOptions{}) })
	}
	namespace(t, system)
	text, err := os.ReadFile(filepath.Join(shared.Get(t).Root, "deploy/manifests", manifest))
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.Get(t).Create(t.Context(), string(text)); err != nil {
		t.Fatal(err)
	}
	account := "gpuscale-" + name
	pod, err := admin.CoreV1().Pods(system).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "on-" + name + "-1"},
		Spec:       corev1.PodSpec{NodeName: name + "-1", ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := admin.CoreV1().ServiceAccounts(system).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(c.RESTConfig())
	config.BearerToken = token.Status.Token
	own, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return onNode{t, admin, own, name + "-1"}
}

func (o onNode) patch(node, text string, subresource ...string) error {
	_, err := o.own.CoreV1().Nodes().Patch(o.t.Context(), node, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{}, subresource...)
	return err
}

// refuses waits until a policy is in force, and refuses with these words.
func (o onNode) refuses(what, words string, do func() error) {
	o.t.Helper()
	await.True(o.t, testenv.Patience, what+" is refused", func() bool {
		err := do()
		return err != nil && strings.Contains(err.Error(), words)
	})
}

// refused are attempts of which none may succeed, those that no pod on a node may
// among them.
func (o onNode) refused(attempts map[string]error) {
	o.t.Helper()
	_, all := o.own.CoreV1().Nodes().List(o.t.Context(), metav1.ListOptions{})
	maps.Copy(attempts, map[string]error{
		"a label by way of the status": o.patch(o.node, `{"metadata":{"labels":{"a":"b"}}}`, "status"),
		"a cordon":                     o.patch(o.node, `{"spec":{"unschedulable":true}}`),
		"all nodes":                    all,
	})
	for what, err := range attempts {
		if err == nil {
			o.t.Errorf("%s: allowed", what)
		}
	}
	n, err := o.admin.CoreV1().Nodes().Get(o.t.Context(), o.node, metav1.GetOptions{})
	if err != nil || n.Labels["a"] != "" || n.Spec.Unschedulable || n.Annotations[partition.RecordAnnotation] != "orders" {
		o.t.Errorf("the node is now %v %v %v: %v", n.Labels, n.Annotations, n.Spec, err)
	}
}

// TestExporterRights: with what deploy/manifests/exporter.yaml gives it, an
// exporter writes the condition of the node that it runs on, and nothing else.
func TestExporterRights(t *testing.T) {
	o := newOnNode(t, "exporter.yaml", "exporter")
	o.refuses("another node's condition", "to no other", func() error { return o.patch("exporter-2", condition, "status") })
	if err := o.patch(o.node, condition, "status"); err != nil {
		t.Errorf("its own node's condition: %v", err)
	}
	o.refused(map[string]error{})
	n, err := o.admin.CoreV1().Nodes().Get(t.Context(), o.node, metav1.GetOptions{})
	if err != nil || !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == "GPUHealthy" }) {
		t.Errorf("the node's conditions are %v: %v", n.Status.Conditions, err)
	}
}

// TestAgentRights: with what deploy/manifests/agent.yaml gives it, an agent writes
// its annotations on the node that it runs on and restarts the device plugin
// there, and nothing else.
func TestAgentRights(t *testing.T) {
	namespace(t, "gpu-operator")
	o := newOnNode(t, "agent.yaml", "agent")
	pods := func(k kubernetes.Interface) interface {
		Create(context.Context, *corev1.Pod, metav1.CreateOptions) (*corev1.Pod, error)
		Delete(context.Context, string, metav1.DeleteOptions) error
	} {
		return k.CoreV1().Pods("gpu-operator")
	}
	for name, app := range map[string]string{"plugin-1": "nvidia-device-plugin-daemonset", "plugin-2": "nvidia-device-plugin-daemonset", "other-1": "something"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
			Spec: corev1.PodSpec{NodeName: "agent-" + name[len(name)-1:], Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
		if _, err := pods(o.admin).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string, dry ...string) error {
		return pods(o.own).Delete(t.Context(), name, metav1.DeleteOptions{DryRun: dry})
	}
	annotation := `{"metadata":{"annotations":{"` + partition.AgentAnnotation + `":"x"}}}`
	o.refuses("another node's annotation", "to no other", func() error { return o.patch("agent-2", annotation, "status") })
	o.refuses("another node's plugin", "of no other", func() error { return remove("plugin-2", metav1.DryRunAll) })
	if err := o.patch(o.node, annotation, "status"); err != nil {
		t.Errorf("its own node's annotation: %v", err)
	}
	o.refused(map[string]error{
		"its orders":  o.patch(o.node, `{"metadata":{"annotations":{"`+partition.RecordAnnotation+`":null}}}`, "status"),
		"allocatable": o.patch(o.node, `{"status":{"allocatable":{"nvidia.com/gpu":"8"}}}`, "status"),
		"a condition": o.patch(o.node, condition, "status"),
		"another pod": remove("other-1"),
	})
	if err := remove("plugin-1"); err != nil {
		t.Errorf("its own device plugin: %v", err)
	}
	if n, err := agent.NewCluster(o.own, o.node).Node(t.Context()); err != nil || n.Annotations[partition.AgentAnnotation] != "x" {
		t.Errorf("the node is now %v: %v", n, err)
	}
	cm, err := o.admin.CoreV1().ConfigMaps(system).Get(t.Context(), "gpuscale-agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.ParseConfig([]byte(cm.Data["config.yaml"])); err != nil {
		t.Errorf("the manifest's configuration: %v\n%s", err, cm.Data)
	}
}
