package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

const exporterNamespace, exporterAccount = "gpuscale-system", "gpuscale-exporter"

// TestExporterRights: with what deploy/manifests/exporter-node.yaml gives it, an
// exporter writes the condition of the node that it runs on, and nothing else.
func TestExporterRights(t *testing.T) {
	c := start(t, nil)
	ctx := t.Context()
	admin := client(t, c)
	for _, name := range []string{"n1", "n2"} {
		if _, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	namespace(t, admin, exporterNamespace)
	applyFile(t, c, "exporter-node.yaml")
	onN1 := podClient(t, c, admin, "n1", exporterNamespace, exporterAccount)

	// The policy takes a moment to hold.
	refused := func(err error, why string) bool { return err != nil && strings.Contains(err.Error(), why) }
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return refused(patch(ctx, onN1, "n2", "status", condition), "to no other"), nil
	})
	if err != nil {
		t.Fatalf("another node's condition can be written: %v", err)
	}
	if err := patch(ctx, onN1, "n1", "status", condition); err != nil {
		t.Errorf("its own node's condition: %v", err)
	}
	for what, err := range map[string]error{
		"a label by way of the status": patch(ctx, onN1, "n1", "status", `{"metadata":{"labels":{"a":"b"}}}`),
		"a cordon":                     patch(ctx, onN1, "n1", "", `{"spec":{"unschedulable":true}}`),
		"all nodes":                    list(ctx, onN1),
	} {
		if err == nil {
			t.Errorf("%s: allowed", what)
		}
	}
	n, err := admin.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, cond := range n.Status.Conditions {
		found = found || cond.Type == "GPUHealthy"
	}
	if !found || n.Labels["a"] != "" || n.Spec.Unschedulable {
		t.Errorf("the node is now %v %v %v", n.Labels, n.Spec, n.Status.Conditions)
	}
}

// namespace makes one that pods can be made in: its account comes a moment later.
func namespace(t *testing.T, k kubernetes.Interface, name string) {
	t.Helper()
	if _, err := k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await.For(t, patience, "the account of namespace "+name, func() error {
		_, err := k.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

const condition = `{"status":{"conditions":[{"type":"GPUHealthy","status":"True","reason":"AllHealthy","message":""}]}}`

func patch(ctx context.Context, k kubernetes.Interface, node, subresource, text string) error {
	var sub []string
	if subresource != "" {
		sub = []string{subresource}
	}
	_, err := k.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{}, sub...)
	return err
}

func list(ctx context.Context, k kubernetes.Interface) error {
	_, err := k.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	return err
}

// applyFile creates the objects of one of deploy/manifests.
func applyFile(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "manifests", name))
	if err != nil {
		t.Fatal(err)
	}
	k, err := ctrl.New(c.RESTConfig(), ctrl.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := d.Decode(o); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if len(o.Object) == 0 {
			continue
		}
		if err := k.Create(t.Context(), o); err != nil {
			t.Fatalf("creating %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}
