package chart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestHelm upgrades what is installed, as its users do.
func TestHelm(t *testing.T) {
	b := start(t)
	for _, part := range []struct {
		name string
		run  func(*env, *testing.T)
	}{
		{"a namespace that is not there is named", (*env).missingNamespace},
		{"a dry run on the server changes nothing", (*env).dryRun},
		{"an upgrade keeps the certificate", (*env).upgraded},
		{"a certificate taken away is made again, with its authority", (*env).renewed},
		{"the exporter follows mig-manager's labels", (*env).paused},
		{"what a person made stays when it is gone", (*env).uninstalled},
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

// replicas that the adapter's Deployment asks for.
func (b *env) replicas(t *testing.T) int32 {
	t.Helper()
	var d appsv1.Deployment
	if err := b.Admin.Get(t.Context(), client.ObjectKey{Namespace: installed, Name: adapterName}, &d); err != nil {
		t.Fatal(err)
	}
	return *d.Spec.Replicas
}

func (b *env) dryRun(t *testing.T) {
	before := b.replicas(t)
	if err := b.upgrade(t.Context(), "--dry-run=server", "--set", "adapter.replicas=3"); err != nil {
		t.Fatal(err)
	}
	if now := b.replicas(t); now != before {
		t.Errorf("%d replicas, %d before", now, before)
	}
}

// serving is the adapter's Secret and what the APIServices believe.
func (b *env) serving(t *testing.T) (secret corev1.Secret, bundle string) {
	t.Helper()
	if err := b.Admin.Get(t.Context(), client.ObjectKey{Namespace: installed, Name: "gpuscale-adapter-tls"}, &secret); err != nil {
		t.Fatal(err)
	}
	api := testenv.Object(apiServiceKind, "", custom)
	if err := b.Admin.Get(t.Context(), keyOf(api), api); err != nil {
		t.Fatal(err)
	}
	bundle, _, _ = unstructured.NestedString(api.Object, "spec", "caBundle")
	return secret, bundle
}

func (b *env) upgraded(t *testing.T) {
	before, bundle := b.serving(t)
	if err := b.upgrade(t.Context(), "--set", "adapter.replicas=3"); err != nil {
		t.Fatal(err)
	}
	if n := b.replicas(t); n != 3 {
		t.Fatalf("the upgrade did nothing: %d replicas", n)
	}
	after, now := b.serving(t)
	if string(before.Data["tls.key"]) != string(after.Data["tls.key"]) || bundle != now || bundle == "" {
		t.Error("the certificate or its authority has changed")
	}
}

func (b *env) renewed(t *testing.T) {
	before, bundle := b.serving(t)
	if err := b.Admin.Delete(t.Context(), &before); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.upgrade(t.Context()), b.carry(t.Context())); err != nil {
		t.Fatal(err)
	}
	after, now := b.serving(t)
	if string(before.Data["tls.key"]) == string(after.Data["tls.key"]) || bundle == now {
		t.Error("the old certificate is still there")
	}
}

// paused: mig-manager removes dcgm-exporter from a node by its label before it
// repartitions GPUs; our exporter has to go, too, or it keeps the GPUs in use.
func (b *env) paused(t *testing.T) {
	ctx := t.Context()
	x := &trouble{env: b, t: t}
	x.add(fmt.Sprintf(gpuNode, "paused-1", `"1"`, product))
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
	label("false")
	x.wait("no exporter where it is turned off by label", there(false))
}

// uninstalled: what a person made stays, and it can be installed again over that.
func (b *env) uninstalled(t *testing.T) {
	testall.Only(t, "an uninstallation")
	if _, err := b.helm.Run(t.Context(), chart.Release{Namespace: installed}, "uninstall", "gpuscale"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{adapterName, autoscalerName} {
		if err := b.Cluster.KillProgram(name); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		if err := errors.Join(b.helmInstall(context.Background()), b.startPrograms(context.Background())); err != nil {
			t.Errorf("a second installation: %v", err)
		}
	})
	if err := b.Admin.Get(t.Context(), client.ObjectKey{Name: "whole"}, &v1alpha1.GPUNodePool{}); err != nil {
		t.Errorf("the pool is gone: %v", err)
	}
	var d appsv1.Deployment
	err := b.Admin.Get(t.Context(), client.ObjectKey{Namespace: installed, Name: adapterName}, &d)
	if err == nil && d.DeletionTimestamp.IsZero() || err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("the adapter is still there: %v", err)
	}
}
