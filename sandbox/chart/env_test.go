package chart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// plane is the control plane that all tests share. It has the CRDs of every project whose objects the chart
// or the pages contain.
type plane struct {
	*testenv.Env
	helm   chart.Helm // over the checkout's chart
	doctor string     // path of the program
	source source     // what the programs query in place of Prometheus; empty for Prometheus

	bare    visit // doctor's report before anything of gpuscale was installed
	unaided visit // the same, without a Prometheus
}

// env is a complete gpuscale, installed and running on the plane.
type env struct {
	*plane
	scrape  scraping
	fleet   *fleet
	adapter int // ports
	scaler  int

	groups     string // address of the provider of the pools' nodes
	stopGroups func()

	normal visit     // doctor's report when everything ran
	begun  time.Time // time of the first request of a program
	ran    time.Time // time when everything ran
}

var (
	control = testenv.NewShared(newPlane)
	whole   = testenv.NewShared(newEnv)
)

func TestMain(m *testing.M) {
	code := m.Run()
	whole.Stop()
	control.Stop()
	os.Exit(code)
}

// onPlane is for tests that require only the API server and the chart's text.
func onPlane(t *testing.T) *plane {
	t.Helper()
	needHelm(t)
	return control.Get(t)
}

// start is for tests that require gpuscale installed and running.
func start(t *testing.T) *env {
	t.Helper()
	needHelm(t)
	return whole.Get(t)
}

func needHelm(t *testing.T) {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	if _, err := chart.New(root); err != nil {
		t.Skip(err) // make test builds it before
	}
}

// doctorUser is the user as which doctor may read everything.
const doctorUser = "doctor"

// auditPolicy records doctor's requests under every account, and every response to gpuscale's accounts. So a
// missing permission is noticed even if the program works without it.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: [` + doctorUser + `, "system:serviceaccount:` + visitors + `:` + viewer + `", "system:serviceaccount:` + visitors + `:` + noRights + `"]
- level: Metadata
  userGroups: ["system:serviceaccounts:` + installed + `"]
- level: None
`

// thirdParties are other projects' CRDs, from their modules.
var thirdParties = []neighbours.Source{
	neighbours.ClusterAPI(),
	neighbours.Karpenter(),
	{Neighbour: build.PrometheusOperator, Files: []string{
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheuses.yaml",
	}},
	{Neighbour: build.Neighbour{Module: "github.com/cert-manager/cert-manager", Version: "v1.21.2"}, Files: []string{
		"deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_issuers.yaml",
	}},
	{Neighbour: build.SchedulerPlugins, Files: []string{"config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"}},
}

func newPlane(ctx context.Context) (_ *plane, err error) {
	p := &plane{}
	if p.Env, err = testenv.Start(ctx, testenv.Options{Prometheus: string((&scraping{}).config()), AuditPolicy: auditPolicy, Programs: true}); err != nil {
		return nil, err
	}
	p.doctor = filepath.Join(p.Programs, "gpuscale-report")
	if p.helm, err = chart.New(p.Root); err == nil {
		p.helm.Kubeconfig = p.Cluster.Kubeconfig()
		err = errors.Join(p.lookAtNothing(ctx), p.InstallSources(ctx, thirdParties...))
	}
	if err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// prometheus is the URL that our programs query.
func (p *plane) prometheus() string { return cmp.Or(p.source.url, p.Cluster.PrometheusURL()) }

func newEnv(ctx context.Context) (_ *env, err error) {
	p, err := control.Env(ctx)
	if err != nil {
		return nil, err
	}
	b := &env{plane: p, begun: time.Now()}
	defer func() {
		if err != nil {
			b.Stop()
		}
	}()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"installing the chart", b.install},
		{"starting the exporters", b.startFleet},
		{"making the world", b.populate},
		{"starting the programs", b.startPrograms},
		{"waiting until all is well", b.settle},
	} {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(ctx, 2*testenv.Patience)
		err := step.do(ctx)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.what, errors.Join(err, p.Cluster.Err()))
		}
		fmt.Fprintf(os.Stderr, "%s took %s\n", step.what, time.Since(begin).Round(10*time.Millisecond))
	}
	b.ran = time.Now()
	return b, nil
}

// Stop stops the fakes behind the nodes. The plane is stopped separately.
func (b *env) Stop() {
	if b.fleet != nil {
		b.fleet.stop()
	}
	if b.stopGroups != nil {
		b.stopGroups()
	}
}

// until retries until ok returns nil or ctx ends.
func until(ctx context.Context, what string, ok func() error) error {
	if err := await.Until(ctx, func(context.Context) error { return ok() }); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// errNotYet means that something has not happened yet.
var errNotYet = errors.New("not yet")

// patient is the test's context with a deadline.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	t.Cleanup(cancel)
	return ctx
}
