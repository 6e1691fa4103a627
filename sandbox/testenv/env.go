package testenv

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
)

// Options of an environment. The zero value is a control plane without anything else.
type Options struct {
	// Prometheus is its configuration; empty for no Prometheus.
	Prometheus string
	// AuditPolicy is the API server's audit policy in YAML; empty for no audit log.
	AuditPolicy string
	// CRDs installs the CRDs of deploy/chart/gpuscale/files/crds.
	CRDs bool
	// Programs compiles gpuscale's programs from this checkout.
	Programs bool
	// Change is applied to the cluster's options last.
	Change func(*cluster.Options)
}

// Env is a running control plane.
type Env struct {
	Root     string // of the checkout
	Dir      string // removed by Stop
	Binaries build.Paths
	Programs string // folder of gpuscale's programs; empty without Options.Programs
	Cluster  *cluster.Cluster
	Admin    client.Client // knows gpuscale's types and Kubernetes'

	audit string // file
}

// Start returns when the control plane is ready and the CRDs are served.
func Start(ctx context.Context, o Options) (_ *Env, err error) {
	ctrllog.SetLogger(logr.Discard())
	e := &Env{}
	if e.Root, err = build.FindRoot(); err != nil {
		return nil, err
	}
	compile := build.ControlPlane
	if o.Prometheus != "" {
		compile = build.All
	}
	if e.Binaries, err = compile(ctx, build.Options{Out: os.Stderr}); err != nil {
		return nil, err
	}
	if o.Programs {
		if e.Programs, err = build.Programs(ctx, build.Options{Out: os.Stderr}); err != nil {
			return nil, err
		}
	}
	if e.Dir, err = os.MkdirTemp("", "testenv-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			e.Stop()
		}
	}()
	c := cluster.Options{
		Binaries: e.Binaries, Parent: e.Dir, Prometheus: []byte(o.Prometheus), ExtraArgs: map[string][]string{},
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if o.AuditPolicy != "" {
		e.audit = filepath.Join(e.Dir, "audit.log")
		policy := filepath.Join(e.Dir, "audit.yaml")
		if err := os.WriteFile(policy, []byte(o.AuditPolicy), 0o600); err != nil {
			return nil, err
		}
		c.ExtraArgs[cluster.APIServer] = []string{"--audit-policy-file=" + policy, "--audit-log-path=" + e.audit, "--audit-log-mode=blocking"}
	}
	if o.Change != nil {
		o.Change(&c)
	}
	if e.Cluster, err = cluster.Start(ctx, c); err != nil {
		return nil, err
	}
	if e.Admin, err = client.New(e.Cluster.RESTConfig(), client.Options{Scheme: scheme.New()}); err != nil {
		return nil, err
	}
	if o.CRDs {
		err = neighbours.Apply(ctx, e.Admin, filepath.Join(e.Root, "deploy/chart/gpuscale/files/crds/*.yaml"))
		if err == nil {
			err = e.awaitCRDs(ctx)
		}
	}
	return e, err
}

// Stop ends the control plane and removes Dir.
func (e *Env) Stop() {
	if e.Cluster != nil {
		e.Cluster.Stop()
	}
	_ = os.RemoveAll(e.Dir)
}

// InstallSources installs CRDs of other projects and waits until all CRDs of the cluster are served.
func (e *Env) InstallSources(ctx context.Context, sources ...neighbours.Source) error {
	for _, s := range sources {
		if err := s.Install(ctx, e.Admin); err != nil {
			return err
		}
	}
	return e.awaitCRDs(ctx)
}
