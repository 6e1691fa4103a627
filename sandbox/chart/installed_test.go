package chart

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestHelm upgrades the installed release, as users do.
func TestHelm(t *testing.T) {
	b := start(t)
	for _, part := range []struct {
		name string
		run  func(*env, *testing.T)
	}{
		{"a namespace that is not there is named", (*env).missingNamespace},
		{"an upgrade keeps the adapter's CA", (*env).upgraded},
		{"a CA that was overwritten is put back", (*env).overwritten},
		{"the adapter changes no other field", (*env).fenced},
		{"the exporter follows mig-manager's labels", (*env).paused},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(b, t) })
	}
	b.well(t)
}

func (b *env) missingNamespace(t *testing.T) {
	want := `autoscaler.migManager.namespace: there is no namespace "missing"`
	if err := b.upgrade(t.Context(), "--set", "autoscaler.migManager.namespace=missing"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("want %q, got %v", want, err)
	}
}

// trusted is the CA bundle of an APIService.
func (b *env) trusted(t *testing.T) string {
	t.Helper()
	api := testenv.Object(apiServiceKind, "", custom)
	require.NoError(t, b.Admin.Get(t.Context(), keyOf(api), api))
	bundle, _, _ := unstructured.NestedString(api.Object, "spec", "caBundle")
	return bundle
}

func (b *env) upgraded(t *testing.T) {
	before := b.trusted(t)
	require.NoError(t, b.upgrade(t.Context(), "--set", "adapter.replicas=3"))
	var d appsv1.Deployment
	if err := b.Admin.Get(t.Context(), client.ObjectKey{Namespace: installed, Name: adapterName}, &d); err != nil || *d.Spec.Replicas != 3 {
		t.Fatalf("the upgrade did nothing: %+v, %v", d.Spec, err)
	}
	if now := b.trusted(t); now != before || now == "" {
		t.Errorf("caBundle was %q and is %q", before, now)
	}
}

// overwritten tests that the adapter restores its CA after another writer has replaced it: kubectl apply,
// KEDA's operator, or a user.
func (b *env) overwritten(t *testing.T) {
	before := b.trusted(t)
	api := testenv.Object(apiServiceKind, "", custom)
	require.NoError(t, b.Admin.Patch(t.Context(), api, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"caBundle":null}}`))))
	await.True(t, testenv.Patience, "the CA", func() bool { return b.trusted(t) == before })
}

// fenced tests what admission policies refuse to the adapter's own account.
func (b *env) fenced(t *testing.T) {
	kubeconfig, err := b.Cluster.ServiceAccountKubeconfig(t.Context(), installed, adapterName)
	require.NoError(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	adapter, err := client.New(config, client.Options{})
	require.NoError(t, err)
	for _, c := range []struct {
		name, object, says string
		change             func(*unstructured.Unstructured)
	}{
		{"another server", custom, "changes no field of an APIService but caBundle", func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "mine", "spec", "service", "name")
		}},
		{"no verification", custom, "changes no field of an APIService but caBundle", func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "spec", "caBundle")
			_ = unstructured.SetNestedField(u.Object, true, "spec", "insecureSkipTLSVerify")
		}},
		{"a label", custom, "changes no field of an APIService but caBundle", func(u *unstructured.Unstructured) {
			u.SetLabels(map[string]string{"kube-aggregator.kubernetes.io/automanaged": "true"})
		}},
		{"an owner that is gone", custom, "changes no field of an APIService but caBundle", func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"}}, "metadata", "ownerReferences")
		}},
		{"another API", "v1.apps", "forbidden", func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "bWluZQ==", "spec", "caBundle")
		}},
	} {
		api := testenv.Object(apiServiceKind, "", c.object)
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // the aggregator also writes its status
			require.NoError(t, b.Admin.Get(t.Context(), keyOf(api), api))
			c.change(api)
			return adapter.Update(t.Context(), api, client.DryRunAll)
		})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: want %q, got %v", c.name, c.says, err)
		}
	}
}

// paused tests that our exporter leaves a node when mig-manager pauses dcgm-exporter by its label before a
// repartition. Otherwise it would keep the GPUs in use.
func (b *env) paused(t *testing.T) {
	ctx := t.Context()
	x := &trouble{env: b, t: t}
	x.add(`
apiVersion: v1
kind: Node
metadata:
  name: paused-1
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3, nvidia.com/gpu.count: "1"}
status: {allocatable: {cpu: "64", memory: 256Gi, pods: "110", nvidia.com/gpu: "1"}}
`)
	there := func(want bool) func() error {
		return func() error {
			pods, err := b.pods(ctx, exporterName)
			if err != nil {
				return err
			}
			on := slices.ContainsFunc(pods, func(p corev1.Pod) bool {
				text, _ := json.Marshal(p.Spec)
				return p.DeletionTimestamp.IsZero() && strings.Contains(string(text), "paused-1")
			})
			if on != want {
				return fmt.Errorf("an exporter on the node: %v, want %v", on, want)
			}
			return nil
		}
	}
	label := func(value string) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"nvidia.com/gpu.deploy.dcgm-exporter":%q}}}`, value)
		x.must(b.Admin.Patch(ctx, testenv.Object("v1/Node", "", "paused-1"), client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	x.wait("an exporter on a node that has GPUs", there(true))
	label("paused-for-mig-change")
	x.wait("no exporter while GPUs are repartitioned", there(false))
	label("true")
	x.wait("an exporter afterwards", there(true))
	label("paused-for-driver-upgrade")
	x.wait("no exporter while the driver is replaced", there(false))
}
