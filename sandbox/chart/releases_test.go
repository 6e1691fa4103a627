package chart

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/sandbox/build"
)

// crdKind is read by its metadata alone.
var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// alone installs the exporter and nothing that a cluster has once.
const alone = `{adapter: {enabled: false}, autoscaler: {enabled: false}}`

// crdOwner returns the release that has made the CRDs; empty where they are not there.
func (b *bed) crdOwner(t *testing.T) (release, namespace string) {
	t.Helper()
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(crdKind)
	err := b.admin.Get(t.Context(), client.ObjectKey{Name: "gpunodepools.gpuscale.io"}, crd)
	if apierrors.IsNotFound(err) {
		return "", ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return crd.Annotations["meta.helm.sh/release-name"], crd.Annotations["meta.helm.sh/release-namespace"]
}

// TestTwoReleases: docs/install.md has two of them in one cluster, to keep the exporter
// in a namespace of its own. The CRDs are one release's, and the other one hears whose,
// and what to do; what it is told to type makes them its own.
func TestTwoReleases(t *testing.T) {
	b := start(t)
	h := b.helm
	h.Kubeconfig = b.cluster.Kubeconfig()
	for _, ns := range []string{installed, "second", "gpu-operator"} {
		b.namespace(t, ns, "")
	}
	owner, in := b.crdOwner(t)
	if owner == "" {
		// As TestInstalled will have it, whichever comes first.
		owner, in = "gpuscale", installed
		first := chart.Release{Name: owner, Namespace: in, Values: `{exporter: {enabled: false}, adapter: {enabled: false}, autoscaler: {enabled: false}}`}
		if err := h.Install(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if _, err := h.Run(context.Background(), chart.Release{Namespace: in}, "uninstall", owner); err != nil {
				t.Error(err)
			}
		})
	}
	second := chart.Release{Name: "gpuscale", Namespace: "second", Values: alone}
	err := h.Install(t.Context(), second)
	if err == nil {
		t.Fatal("the CRDs of another release were taken")
	}
	for _, want := range []string{"crds.install: gpunodepools.gpuscale.io is there already", owner, in, "set crds.install=false here"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}

	off := second
	off.Args = []string{"--set", "crds.install=false"}
	if err := h.Install(t.Context(), off); err != nil {
		t.Fatalf("with crds.install=false: %v", err)
	}
	t.Cleanup(func() {
		if _, err := h.Run(context.Background(), chart.Release{Namespace: "second"}, "uninstall", "gpuscale"); err != nil {
			t.Error(err)
		}
	})

	// The other way: what is printed is typed, for the one CRD and then for the other.
	give := func(crd, release, namespace string) string {
		return "kubectl annotate --overwrite crd " + crd + " meta.helm.sh/release-name=" + release + " meta.helm.sh/release-namespace=" + namespace
	}
	t.Cleanup(func() {
		for _, crd := range []string{"gpunodepools.gpuscale.io", "gpuquotas.gpuscale.io"} {
			b.typeIn(context.Background(), t, give(crd, owner, in))
		}
	})
	for range 2 {
		err := h.Install(t.Context(), second)
		if err == nil {
			t.Fatal("there are two CRDs, and one was asked for")
		}
		_, command, ok := strings.Cut(err.Error(), "To have it in this release: ")
		if !ok {
			t.Fatal(err)
		}
		command, _, _ = strings.Cut(command, "\n")
		b.typeIn(t.Context(), t, command)
	}
	if err := h.Install(t.Context(), second); err != nil {
		t.Errorf("after what was printed was typed: %v", err)
	}
}

// typeIn runs a command as whoever pastes it would.
func (b *bed) typeIn(ctx context.Context, t *testing.T, command string) {
	t.Helper()
	binaries, err := build.All(ctx, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Env = []string{"PATH=" + binaries.Bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "KUBECONFIG=" + b.cluster.Kubeconfig()}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", command, err, out)
	}
}
