package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/agent"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// TestAgentRights: with what deploy/manifests/agent.yaml gives it, an agent writes
// its annotations on the node that it runs on and restarts the device plugin
// there, and nothing else.
func TestAgentRights(t *testing.T) {
	c := start(t, nil)
	ctx := t.Context()
	admin := client(t, c)
	for _, name := range []string{"n1", "n2"} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{partition.RecordAnnotation: "orders"}}}
		if _, err := admin.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"gpuscale-system", "gpu-operator"} {
		namespace(t, admin, name)
	}
	applyFile(t, c, "agent.yaml")
	onN1 := podClient(t, c, admin, "n1", "gpuscale-system", "gpuscale-agent")
	run := func(name, node, app string) {
		t.Helper()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu-operator", Name: name, Labels: map[string]string{"app": app}},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
		if _, err := admin.CoreV1().Pods("gpu-operator").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	run("plugin-n1", "n1", "nvidia-device-plugin-daemonset")
	run("plugin-n2", "n2", "nvidia-device-plugin-daemonset")
	run("other-n1", "n1", "something")
	remove := func(name string, dry ...string) error {
		return onN1.CoreV1().Pods("gpu-operator").Delete(ctx, name, metav1.DeleteOptions{DryRun: dry})
	}
	annotation := `{"metadata":{"annotations":{"` + partition.AgentAnnotation + `":"x"}}}`

	// The policies take a moment to hold.
	var err1, err2 error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err1, err2 = patch(ctx, onN1, "n2", "status", annotation), remove("plugin-n2", metav1.DryRunAll)
		return err1 != nil && strings.Contains(err1.Error(), "to no other") && err2 != nil && strings.Contains(err2.Error(), "of no other"), nil
	})
	if err != nil {
		t.Fatalf("another node or its plugin can be changed: %v; %v; %v", err, err1, err2)
	}
	if err := patch(ctx, onN1, "n1", "status", annotation); err != nil {
		t.Errorf("its own node's annotation: %v", err)
	}
	for what, err := range map[string]error{
		"a label":     patch(ctx, onN1, "n1", "status", `{"metadata":{"labels":{"a":"b"}}}`),
		"its orders":  patch(ctx, onN1, "n1", "status", `{"metadata":{"annotations":{"`+partition.RecordAnnotation+`":null}}}`),
		"allocatable": patch(ctx, onN1, "n1", "status", `{"status":{"allocatable":{"nvidia.com/gpu":"8"}}}`),
		"a condition": patch(ctx, onN1, "n1", "status", condition),
		"a cordon":    patch(ctx, onN1, "n1", "", `{"spec":{"unschedulable":true}}`),
		"all nodes":   list(ctx, onN1),
		"another pod": remove("other-n1"),
	} {
		if err == nil {
			t.Errorf("%s: allowed", what)
		}
	}
	if err := remove("plugin-n1"); err != nil {
		t.Errorf("its own device plugin: %v", err)
	}
	cluster := agent.NewCluster(onN1, "n1")
	if n, err := cluster.Node(ctx); err != nil || n.Annotations[partition.AgentAnnotation] != "x" || n.Annotations[partition.RecordAnnotation] != "orders" {
		t.Errorf("the node is now %v: %v", n, err)
	}
	cm, err := admin.CoreV1().ConfigMaps("gpuscale-system").Get(ctx, "gpuscale-agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.ParseConfig([]byte(cm.Data["config.yaml"])); err != nil {
		text, _ := yaml.Marshal(cm.Data)
		t.Errorf("the manifest's configuration: %v\n%s", err, text)
	}
}

// podClient returns a client with the token that the kubelet would give to a pod
// on the node.
func podClient(t *testing.T, c *cluster.Cluster, admin kubernetes.Interface, node, namespace, account string) kubernetes.Interface {
	t.Helper()
	pod, err := admin.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "on-" + node},
		Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(c.RESTConfig())
	config.BearerToken = token.Status.Token
	k, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
