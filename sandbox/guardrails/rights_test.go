package guardrails

import (
	"context"
	"fmt"
	"maps"
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

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

const (
	system    = "gpuscale-system"
	condition = `{"status":{"conditions":[{"type":"GPUHealthy","status":"True","reason":"AllHealthy","message":""}]}}`
)

// typed is the control plane with a client of Kubernetes' own types.
func typed(t *testing.T) (*env, kubernetes.Interface) {
	t.Helper()
	e := shared.Get(t)
	k, err := kubernetes.NewForConfig(e.Cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return e, k
}

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
	e, admin := typed(t)
	for i, node := range []string{name + "-1", name + "-2"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{contract.RecordAnnotation: "orders"}}, Spec: corev1.NodeSpec{Unschedulable: i > 0}}
		if _, err := admin.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.CoreV1().Nodes().Delete(context.Background(), node, metav1.DeleteOptions{}) })
	}
	for _, ns := range []string{system, "gpu-operator"} {
		if err := e.Namespace(t.Context(), ns, nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // other tests would see them
			if err := e.Admin.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(ns), client.GracePeriodSeconds(0)); err != nil {
				t.Error(err)
			}
		})
	}
	if err := e.Apply(t.Context(), "deploy/manifests/"+manifest); err != nil {
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
	config := rest.AnonymousClientConfig(e.Cluster.RESTConfig())
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
	if err != nil || n.Labels["a"] != "" || n.Spec.Unschedulable || n.Annotations[contract.RecordAnnotation] != "orders" {
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
	quiesced := `{"metadata":{"annotations":{"gpuscale.io/quiesced":"0"}}}`
	if err := o.patch(o.node, quiesced, "status"); err != nil {
		t.Errorf("its own annotation: %v", err)
	}
	o.refused(map[string]error{
		"the agent's orders":         o.patch(o.node, `{"metadata":{"annotations":{"`+contract.RecordAnnotation+`":null}}}`, "status"),
		"other orders":               o.patch(o.node, `{"metadata":{"annotations":{"`+contract.RecordAnnotation+`":"x"}}}`, "status"),
		"another annotation":         o.patch(o.node, `{"metadata":{"annotations":{"a":"b"}}}`, "status"),
		"allocatable":                o.patch(o.node, `{"status":{"allocatable":{"nvidia.com/gpu":"8"}}}`, "status"),
		"capacity":                   o.patch(o.node, `{"status":{"capacity":{"nvidia.com/gpu":"8"}}}`, "status"),
		"that the node is ready":     o.patch(o.node, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"r","message":""}]}}`, "status"),
		"the node's addresses":       o.patch(o.node, `{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}`, "status"),
		"the node's boot and driver": o.patch(o.node, `{"status":{"nodeInfo":{"bootID":"x"}}}`, "status"),
	})
	n, err := o.admin.CoreV1().Nodes().Get(t.Context(), o.node, metav1.GetOptions{})
	if err != nil || !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == "GPUHealthy" }) {
		t.Errorf("the node's conditions are %v: %v", n.Status.Conditions, err)
	}
}

// TestAgentRights: with what deploy/manifests/agent.yaml gives it, an agent writes
// its annotations on the node that it runs on and restarts the device plugin
// there, and nothing else.
func TestAgentRights(t *testing.T) {
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
	annotation := `{"metadata":{"annotations":{"` + contract.AgentAnnotation + `":"x"}}}`
	o.refuses("another node's annotation", "to no other", func() error { return o.patch("agent-2", annotation, "status") })
	o.refuses("another node's plugin", "of no other", func() error { return remove("plugin-2", metav1.DryRunAll) })
	if err := o.patch(o.node, annotation, "status"); err != nil {
		t.Errorf("its own node's annotation: %v", err)
	}
	o.refused(map[string]error{
		"its orders":              o.patch(o.node, `{"metadata":{"annotations":{"`+contract.RecordAnnotation+`":null}}}`, "status"),
		"allocatable":             o.patch(o.node, `{"status":{"allocatable":{"nvidia.com/gpu":"8"}}}`, "status"),
		"a condition":             o.patch(o.node, condition, "status"),
		"an annotation of others": o.patch(o.node, `{"metadata":{"annotations":{"a":"b"}}}`, "status"),
		"the exporter's":          o.patch(o.node, `{"metadata":{"annotations":{"gpuscale.io/quiesced":"0"}}}`, "status"),
		"another pod":             remove("other-1"),
	})
	if err := remove("plugin-1"); err != nil {
		t.Errorf("its own device plugin: %v", err)
	}
	if n, err := o.own.CoreV1().Nodes().Get(t.Context(), o.node, metav1.GetOptions{}); err != nil || n.Annotations[contract.AgentAnnotation] != "x" {
		t.Errorf("the node is now %v: %v", n, err)
	}
}

// TestAutoscalerRights: with what deploy/manifests/autoscaler.yaml gives it, the autoscaler cordons any
// node, writes mig-manager's labels, its own annotations and a pod's nominatedNodeName, and nothing
// else of them.
func TestAutoscalerRights(t *testing.T) {
	o := newOnNode(t, "autoscaler.yaml", "autoscaler")
	if _, err := o.admin.CoreV1().Pods(system).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pending"}, Spec: corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := func(change string) error {
		_, err := o.own.CoreV1().Pods(system).Patch(t.Context(), "pending", types.StrategicMergePatchType, []byte(change), metav1.PatchOptions{}, "status")
		return err
	}
	label := func(key, value string) string { return `{"metadata":{"labels":{"` + key + `":` + value + `}}}` }
	annotation := func(key, value string) string { return `{"metadata":{"annotations":{"` + key + `":` + value + `}}}` }
	tries := 0 // until a policy is in force a write succeeds, and the same one again would change nothing
	another := func() string { tries++; return fmt.Sprintf("%q", fmt.Sprint("v", tries)) }
	o.refuses("a label of others", "no labels but", func() error { return o.patch("autoscaler-2", label("a", another())) })
	o.refuses("a pod's status", "nominatedNodeName", func() error { return pod(`{"status":{"message":` + another() + `}}`) })
	await.For(t, testenv.Patience, "the end of the taint that a new node has", func() error {
		n, err := o.admin.CoreV1().Nodes().Get(t.Context(), o.node, metav1.GetOptions{})
		if err == nil && len(n.Spec.Taints) > 0 {
			err = fmt.Errorf("it has %v", n.Spec.Taints)
		}
		return err
	})
	for what, err := range map[string]error{
		// First: the node controller adds a taint of its own to a cordon.
		"a soft taint":        o.patch(o.node, `{"spec":{"taints":[{"key":"gpuscale.io/empty","effect":"PreferNoSchedule"}]}}`),
		"a soft taint's end":  o.patch(o.node, `{"spec":{"taints":null}}`),
		"a cordon":            o.patch(o.node, `{"spec":{"unschedulable":true}}`),
		"its end":             o.patch(o.node, `{"spec":{"unschedulable":false}}`),
		"mig-manager's label": o.patch(o.node, label("nvidia.com/mig.config", `"x"`)),
		"a component's":       o.patch(o.node, label("nvidia.com/gpu.deploy.device-plugin", `"true"`)),
		"a label's end":       o.patch(o.node, label("nvidia.com/mig.config", "null")),
		"a record":            o.patch(o.node, annotation(contract.RecordAnnotation, `"new"`)),
		"a record's end":      o.patch(o.node, annotation(contract.RecordAnnotation, "null")),
		"a drain":             o.patch(o.node, annotation("gpuscale.io/drain", `"{}"`)),
		"a nomination":        pod(`{"status":{"nominatedNodeName":"autoscaler-2"}}`),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"a taint":                 o.patch(o.node, `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`),
		"a hard taint":            o.patch(o.node, `{"spec":{"taints":[{"key":"gpuscale.io/empty","effect":"NoSchedule"}]}}`),
		"the providerID":          o.patch(o.node, `{"spec":{"providerID":"x://y"}}`),
		"the pool's label":        o.patch(o.node, label("gpuscale.io/pool", `"p"`)),
		"a role":                  o.patch(o.node, label("node-role.kubernetes.io/control-plane", `""`)),
		"the agent's answer":      o.patch(o.node, annotation(contract.AgentAnnotation, `"x"`)),
		"an annotation of others": o.patch(o.node, annotation("a", `"b"`)),
		"a finalizer":             o.patch(o.node, `{"metadata":{"finalizers":["a/b"]}}`),
		"the node's status":       o.patch(o.node, condition, "status"),
		"readiness of a pod":      pod(`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`),
		"an IP of a pod":          pod(`{"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}}`),
		"a container's status":    pod(`{"status":{"containerStatuses":[{"name":"c","image":"c","imageID":"","ready":true,"restartCount":0}]}}`),
		"a label of a pod":        pod(`{"metadata":{"labels":{"a":"b"}}}`),
		"an annotation of a pod":  pod(`{"metadata":{"annotations":{"a":"b"}}}`),
	} {
		if err == nil {
			t.Errorf("%s: allowed", what)
		}
	}
	n, err := o.admin.CoreV1().Nodes().Get(t.Context(), o.node, metav1.GetOptions{})
	// The node controller's taint of a cordon may outlive it for a moment.
	ours := func(t corev1.Taint) bool { return t.Key == "a" || t.Key == "gpuscale.io/empty" }
	if err != nil || slices.ContainsFunc(n.Spec.Taints, ours) || n.Spec.ProviderID != "" || n.Labels["gpuscale.io/pool"] != "" || n.Annotations["a"] != "" {
		t.Errorf("the node is now %v %v %v: %v", n.Labels, n.Annotations, n.Spec, err)
	}
}
