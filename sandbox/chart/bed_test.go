package chart

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
)

// bed is the control plane that all tests share.
type bed struct {
	cluster  *cluster.Cluster
	programs string // folder of our programs
	audit    string // file
	admin    client.Client
	helm     chart.Helm // talks to no cluster
}

var (
	sharedBed = sync.OnceValues(newBed)
	started   atomic.Bool
)

func TestMain(m *testing.M) {
	code := m.Run()
	if started.Load() {
		if b, err := sharedBed(); err == nil {
			b.cluster.Stop()
			_ = os.RemoveAll(filepath.Dir(b.audit))
		}
	}
	os.Exit(code)
}

func start(t *testing.T) *bed {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real control plane, which takes minutes to compile the first time")
	}
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chart.New(root); err != nil {
		t.Skip(err) // make test builds it first
	}
	b, err := sharedBed()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// auditPolicy writes down every answer to service accounts, so that a right that is
// missing is seen although the program goes on without it.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts:` + installed + `"]
- level: None
`

func newBed() (_ *bed, err error) {
	started.Store(true)
	ctx := context.Background()
	ctrllog.SetLogger(logr.Discard())
	binaries, err := build.All(ctx, build.Options{Out: os.Stderr})
	if err != nil {
		return nil, err
	}
	b := &bed{}
	if b.programs, err = build.Programs(ctx, build.Options{Out: os.Stderr}); err != nil {
		return nil, err
	}
	root, err := build.FindRoot()
	if err != nil {
		return nil, err
	}
	if b.helm, err = chart.New(root); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "chart-")
	if err != nil {
		return nil, err
	}
	b.audit = filepath.Join(dir, "audit.log")
	policy := filepath.Join(dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	b.cluster, err = cluster.Start(ctx, cluster.Options{
		Binaries: binaries, Parent: dir, Prometheus: []byte(prometheusConfig),
		Log:       slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		ExtraArgs: map[string][]string{cluster.APIServer: {"--audit-policy-file=" + policy, "--audit-log-path=" + b.audit, "--audit-log-mode=blocking"}},
	})
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	if b.admin, err = client.New(b.cluster.RESTConfig(), client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	return b, b.installNeighbours(ctx)
}

// The CRDs of whom the chart makes objects for, as their modules have them.
var crds = []neighbours.Source{
	{Module: "github.com/prometheus-operator/prometheus-operator", Version: "v0.85.0", Files: []string{
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	}},
	{Module: "github.com/cert-manager/cert-manager", Version: "v1.21.2", Files: []string{
		"deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_issuers.yaml",
	}},
}

var neighbourKinds = []schema.GroupVersionKind{
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"},
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "PodMonitor"},
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule"},
	{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"},
	{Group: "cert-manager.io", Version: "v1", Kind: "Issuer"},
}

func (b *bed) installNeighbours(ctx context.Context) error {
	for _, s := range crds {
		if err := s.Install(ctx, b.admin); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, gvk := range neighbourKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		for {
			err := b.admin.List(ctx, list)
			if err == nil {
				break
			}
			if ctx.Err() != nil || !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("waiting for %s: %w", gvk.Kind, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

// namespace makes one, with a Pod Security level to enforce or without.
func (b *bed) namespace(t *testing.T, name, level string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if level != "" {
		ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": level}
	}
	if err := b.admin.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// until asks again and again until ok returns nil.
func until(t *testing.T, within time.Duration, what string, ok func() error) {
	t.Helper()
	begin := time.Now()
	for {
		err := ok()
		if err == nil {
			t.Logf("%s: after %s", what, time.Since(begin).Round(10*time.Millisecond))
			return
		}
		if time.Since(begin) > within {
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
