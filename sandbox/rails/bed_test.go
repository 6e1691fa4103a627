package rails

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
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
)

// autoscalerUser is whom the autoscaler of these tests acts as: the audit log and
// admission policies tell it from the test's own hand.
const autoscalerUser = "rails-autoscaler"

// bed is the control plane that all tests share.
type bed struct {
	cluster *cluster.Cluster
	audit   string        // file
	admin   client.Client // the test's own hand
	ours    client.Client // the autoscaler's
	worlds  atomic.Int32  // that there have been
}

var sharedBed = sync.OnceValues(newBed)

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

var started atomic.Bool

// auditPolicy writes down every write, and what evictions ask for.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Request
  resources: [{group: "", resources: [pods/eviction]}]
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

func newBed() (*bed, error) {
	started.Store(true)
	ctx := context.Background()
	ctrllog.SetLogger(logr.Discard())
	binaries, err := build.ControlPlane(ctx, build.Options{Out: os.Stderr})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rails-")
	if err != nil {
		return nil, err
	}
	b := &bed{audit: filepath.Join(dir, "audit.log")}
	policy := filepath.Join(dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	b.cluster, err = cluster.Start(ctx, cluster.Options{
		Binaries: binaries, Parent: dir, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		ExtraArgs: map[string][]string{
			cluster.APIServer: {"--audit-policy-file=" + policy, "--audit-log-path=" + b.audit, "--audit-log-mode=blocking"},
			// A node's lease is its owner's, and goes a moment after it. Nodes are made anew
			// under their names here, sooner than that: KWOK then leaves the new one's pods
			// alone until it would have renewed the lease, which is minutes.
			cluster.KWOK: {"--node-lease-duration-seconds=0"},
		},
	})
	if err != nil {
		return nil, err
	}
	types := scheme.New()
	rc := b.cluster.RESTConfig()
	if b.admin, err = client.New(rc, client.Options{Scheme: types}); err != nil {
		return nil, err
	}
	rc = b.cluster.RESTConfig()
	rc.Impersonate.UserName, rc.Impersonate.Groups = autoscalerUser, []string{"system:masters"}
	if b.ours, err = client.New(rc, client.Options{Scheme: types}); err != nil {
		return nil, err
	}
	return b, b.install(ctx)
}

// install puts in the CRDs, ours and the neighbours', and waits until ours are served.
func (b *bed) install(ctx context.Context) error {
	files, err := filepath.Glob("../../deploy/crds/*.yaml")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no CRDs of ours: %w", err)
	}
	for _, file := range append(files, "../neighbours/testdata/herd.yaml") {
		if err := neighbours.Apply(ctx, b.admin, file); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return await.Until(ctx, func(ctx context.Context) error {
		return errors.Join(b.admin.List(ctx, &v1alpha1.GPUNodePoolList{}), b.admin.List(ctx, &v1alpha1.GPUQuotaList{}))
	})
}
