package doctor

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
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// bed is the control plane that all tests share, with all of gpuscale in it.
type bed struct {
	binaries build.Paths // kubectl among them
	cluster  *cluster.Cluster
	audit    string // file
	doctor   string // the program
	root     string // of the checkout
	admin    client.Client
	helm     chart.Helm
	scrape   *scraping
	fleet    *fleet
	adapter  int // ports
	scaler   int

	bare    visit // before anything of ours was there
	unaided visit // the same, without a Prometheus
	normal  visit // when everything ran
}

var (
	sharedBed = sync.OnceValues(newBed)
	started   atomic.Bool
)

func TestMain(m *testing.M) {
	code := m.Run()
	if started.Load() {
		if b, err := sharedBed(); err == nil {
			b.stop()
		}
	}
	os.Exit(code)
}

func (b *bed) stop() {
	if b.fleet != nil {
		b.fleet.stop()
	}
	if b.cluster != nil {
		b.cluster.Stop()
	}
	if b.audit != "" {
		_ = os.RemoveAll(filepath.Dir(b.audit))
	}
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

// doctorUser is whom doctor runs as where it may see everything. Users that begin
// so are written down by the audit log.
const doctorUser = "doctor"

// auditPolicy writes down what doctor asks for, whoever it runs as.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  users: [` + doctorUser + `, "system:serviceaccount:` + visitors + `:` + viewer + `", "system:serviceaccount:` + visitors + `:` + nobody + `"]
- level: None
`

// stepTimeout is generous: the machine may compile something beside this.
const stepTimeout = 3 * time.Minute

func newBed() (_ *bed, err error) {
	started.Store(true)
	ctx := context.Background()
	ctrllog.SetLogger(logr.Discard())
	b := &bed{}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"building", b.build},
		{"starting the control plane", b.up},
		{"looking at a bare cluster", b.lookAtNothing},
		{"installing the chart", b.install},
		{"starting the exporters", b.startFleet},
		{"making the world", b.populate},
		{"starting the programs", b.startPrograms},
		{"waiting until all is well", b.settle},
	} {
		if err := b.step(ctx, step.what, step.do); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// step says what is done and how long it took: who waits for a minute wants to know
// what for.
func (b *bed) step(ctx context.Context, what string, do func(context.Context) error) error {
	begin := time.Now()
	if what != "building" { // the first time it takes as long as it takes
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stepTimeout)
		defer cancel()
	}
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, errors.Join(err, b.died()))
	}
	fmt.Fprintf(os.Stderr, "%s took %s\n", what, time.Since(begin).Round(10*time.Millisecond))
	return nil
}

// died is the program that ended without having been told to, if one did.
func (b *bed) died() error {
	if b.cluster == nil {
		return nil
	}
	return b.cluster.Err()
}

func (b *bed) build(ctx context.Context) (err error) {
	if b.binaries, err = build.All(ctx, build.Options{Out: os.Stderr}); err != nil {
		return err
	}
	programs, err := build.Programs(ctx, build.Options{Out: os.Stderr})
	if err != nil {
		return err
	}
	b.doctor = filepath.Join(programs, "gpuscale-report")
	if b.root, err = build.FindRoot(); err != nil {
		return err
	}
	b.helm, err = chart.New(b.root)
	return err
}

func (b *bed) up(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "doctor-")
	if err != nil {
		return err
	}
	b.audit = filepath.Join(dir, "audit.log")
	policy := filepath.Join(dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	b.cluster, err = cluster.Start(ctx, cluster.Options{
		Binaries: b.binaries, Parent: dir, Prometheus: (&scraping{}).config(),
		Log:       slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		ExtraArgs: map[string][]string{cluster.APIServer: {"--audit-policy-file=" + policy, "--audit-log-path=" + b.audit, "--audit-log-mode=blocking"}},
	})
	if err != nil {
		return err
	}
	b.helm.Kubeconfig = b.cluster.Kubeconfig()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	b.admin, err = client.New(b.cluster.RESTConfig(), client.Options{Scheme: scheme})
	return err
}

// until asks again and again until ok returns nil, or ctx ends.
func until(ctx context.Context, what string, ok func() error) error {
	for {
		err := ok()
		if err == nil {
			return nil
		}
		if f := (fatal{}); errors.As(err, &f) {
			return fmt.Errorf("%s: %w", what, f.error)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(context.Cause(ctx), err))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// errNotYet is what has not happened.
var errNotYet = errors.New("not yet")

// within is the test's context, with an end.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// fatalIn ends the test from within what is waited for.
func fatalIn(t *testing.T, err error) error {
	t.Helper()
	t.Fatal(err)
	return err
}
