package crashstory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
)

// systemNamespace is where the autoscaler's account and lease are.
const systemNamespace = "gpuscale-system"

// BedOptions of a Bed.
type BedOptions struct {
	Root       string // of the checkout
	Binaries   build.Paths
	Autoscaler string // the program
	Parent     string // where the control plane's folder is made
	Log        *slog.Logger
}

// Bed is a control plane on which the story is played again and again.
type Bed struct {
	o       BedOptions
	cluster *cluster.Cluster
	client  client.Client
	stage   *stage
	view    *view
	fleet   *fleet
	metrics *httptest.Server // Prometheus' double
	account string           // kubeconfig of the autoscaler's service account

	cancel context.CancelFunc
	loops  sync.WaitGroup
}

// NewBed starts the control plane and the doubles.
func NewBed(ctx context.Context, o BedOptions) (_ *Bed, err error) {
	b := &Bed{o: o}
	b.cluster, err = cluster.Start(ctx, cluster.Options{
		Binaries: o.Binaries, Parent: o.Parent, Log: o.Log,
		// Nodes get KWOK's annotation after it has first seen them.
		ExtraArgs: map[string][]string{cluster.KWOK: {"--node-lease-duration-seconds=0"}},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.Stop()
		}
	}()
	life, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	rc := b.cluster.RESTConfig()
	if b.client, err = client.New(rc, client.Options{Scheme: scheme.New()}); err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, err
	}
	if b.view, err = newView(life, clients); err != nil {
		return nil, err
	}
	b.stage = &stage{client: b.client, view: b.view, owners: map[string]types.UID{}}
	if err := b.install(ctx); err != nil {
		return nil, err
	}
	b.fleet = newFleet(clients, b.view, o.Log)
	b.loops.Go(func() { b.fleet.run(life) })
	prom := &promtest.Server{}
	prom.Script(b.fleet.answer)
	b.metrics = httptest.NewServer(prom)
	b.account, err = b.cluster.ServiceAccountKubeconfig(ctx, systemNamespace, "gpuscale-autoscaler")
	return b, err
}

// Stop ends everything.
func (b *Bed) Stop() {
	if b.cancel != nil {
		b.cancel()
		b.loops.Wait()
	}
	if b.metrics != nil {
		b.metrics.Close()
	}
	b.cluster.Stop()
}

// install makes what no run changes: CRDs, rights, namespaces.
func (b *Bed) install(ctx context.Context) error {
	for _, name := range []string{systemNamespace, partition.DefaultConfigMap.Namespace, nsFree, nsLender, nsBorrower} {
		if err := b.stage.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	for _, ns := range []string{nsFree, nsLender, nsBorrower} {
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ownerName}}
		if err := b.client.Create(ctx, owner); err != nil {
			return err
		}
		b.stage.owners[ns] = owner.UID
	}
	crds, err := filepath.Glob(filepath.Join(b.o.Root, "deploy/crds/*.yaml"))
	if err != nil || len(crds) == 0 {
		return fmt.Errorf("no CRDs in %s: %w", b.o.Root, errors.Join(err))
	}
	here := filepath.Join(b.o.Root, "sandbox/crashstory/testdata")
	for _, file := range append(crds, filepath.Join(here, "podgroup.yaml")) {
		if err := neighbours.Apply(ctx, b.client, file); err != nil {
			return err
		}
	}
	if err := awaitNone(ctx, func(ctx context.Context) (string, error) {
		group := podGroup()
		if err := b.client.Get(ctx, client.ObjectKeyFromObject(group), group); client.IgnoreNotFound(err) != nil {
			return "PodGroups are not served yet", nil
		}
		return "", nil
	}); err != nil {
		return err
	}
	return b.apply(ctx, filepath.Join(b.o.Root, "deploy/manifests/autoscaler.yaml"))
}

// apply creates the objects of a manifest but for those that run the program: it
// is a process here.
func (b *Bed) apply(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading a manifest: %w", err)
	}
	objects, err := neighbours.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, o := range objects {
		switch o.GetKind() {
		case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "GPUNodePool", "GPUQuota":
			if err := awaitNone(ctx, func(ctx context.Context) (string, error) {
				err := b.stage.create(ctx, o.DeepCopy())
				if err != nil {
					return err.Error(), nil // a kind that is not served yet
				}
				return "", nil
			}); err != nil {
				return fmt.Errorf("%s: creating %s %s: %w", file, o.GetKind(), o.GetName(), err)
			}
		}
	}
	return nil
}

// limit of clearing up, and of every step of the story. Generous: a busy machine
// is no failure, and a story that is stuck is one.
const limit = 60 * time.Second

// clear makes the world as it was before any run, and waits until it is.
func (b *Bed) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the last run's world did not go away"))
	defer cancel()
	for _, ns := range []string{nsFree, nsLender, nsBorrower} {
		in := []client.DeleteAllOfOption{client.InNamespace(ns), client.GracePeriodSeconds(0)}
		if err := errors.Join(b.client.DeleteAllOf(ctx, &corev1.Pod{}, in...), b.client.DeleteAllOf(ctx, podGroup(), in...)); err != nil {
			return err
		}
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: partition.DefaultConfigMap.Namespace, Name: partition.DefaultConfigMap.Name}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "gpuscale-autoscaler"}}
	for _, err := range []error{
		b.client.DeleteAllOf(ctx, &v1alpha1.GPUNodePool{}), b.client.DeleteAllOf(ctx, &v1alpha1.GPUQuota{}),
		b.client.DeleteAllOf(ctx, &corev1.Node{}), b.client.Delete(ctx, config), b.client.Delete(ctx, lease),
	} {
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	err := awaitNone(ctx, func(context.Context) (string, error) {
		if n := len(b.view.nodeList()); n > 0 {
			return fmt.Sprintf("%d nodes are left", n), nil
		}
		for _, ns := range []string{nsFree, nsLender, nsBorrower} {
			var pods corev1.PodList
			if err := b.client.List(ctx, &pods, client.InNamespace(ns)); err != nil || len(pods.Items) > 0 {
				return fmt.Sprintf("%d pods are left in %s", len(pods.Items), ns), err
			}
		}
		if len(b.view.MIGConfig()) > 0 {
			return "mig-manager's ConfigMap is left", nil
		}
		b.fleet.mu.Lock()
		defer b.fleet.mu.Unlock()
		if n := len(b.fleet.hosts); n > 0 {
			return fmt.Sprintf("%d machines are left", n), nil
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	b.view.reset()
	b.fleet.reset()
	return nil
}

// set makes the pools and quotas of the story.
func (b *Bed) set(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the pools could not be made"))
	defer cancel()
	return b.apply(ctx, filepath.Join(b.o.Root, "sandbox/crashstory/testdata/pools.yaml"))
}

// result is the state of the world and what was done in it.
func (b *Bed) result(ctx context.Context) (State, error) {
	s, err := read(ctx, b.client)
	if err != nil {
		return nil, err
	}
	made, removed, left := b.view.counts()
	return append(s, effects(made, removed, left, b.fleet.repartitions())...), nil
}
