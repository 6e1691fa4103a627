package crashstory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// makerAccount is the service account of the pools' provider.
const makerAccount = "nodegroups"

// systemNamespace is where the autoscaler's account and lease are.
const systemNamespace = "gpuscale-system"

// Env is a control plane on which the story is played again and again.
type Env struct {
	*testenv.Env
	log     *slog.Logger
	stage   *stage
	view    *view
	fleet   *fleet
	metrics *httptest.Server // Prometheus' fake
	account string           // kubeconfig of the autoscaler's service account
	maker   string           // kubeconfig of the pools' provider

	cancel context.CancelFunc
	loops  sync.WaitGroup
}

// newEnv starts the control plane and the fakes.
func newEnv(ctx context.Context, log *slog.Logger) (_ *Env, err error) {
	e, err := testenv.Start(ctx, testenv.Options{CRDs: true, Programs: true, Change: func(o *cluster.Options) {
		// Nodes get KWOK's annotation after it has first seen them.
		o.ExtraArgs[cluster.KWOK] = []string{"--node-lease-duration-seconds=0"}
	}})
	if err != nil {
		return nil, err
	}
	b := &Env{Env: e, log: log}
	defer func() {
		if err != nil {
			b.Stop()
		}
	}()
	life, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	if b.view, err = newView(life, b.Cluster.Client()); err != nil {
		return nil, err
	}
	b.stage = &stage{client: b.Admin, view: b.view, owners: map[string]types.UID{}}
	if err := b.install(ctx); err != nil {
		return nil, err
	}
	b.fleet = newFleet(b.Cluster.Client(), b.view, log)
	b.loops.Go(func() { b.fleet.run(life) })
	prom := &promtest.Server{}
	prom.Script(b.fleet.answer)
	b.metrics = httptest.NewServer(prom)
	if b.maker, err = b.Cluster.ServiceAccountKubeconfig(ctx, systemNamespace, makerAccount); err != nil {
		return nil, err
	}
	b.account, err = b.Cluster.ServiceAccountKubeconfig(ctx, systemNamespace, "gpuscale-autoscaler")
	return b, err
}

// Stop ends everything.
func (b *Env) Stop() {
	if b.cancel != nil {
		b.cancel()
		b.loops.Wait()
	}
	if b.metrics != nil {
		b.metrics.Close()
	}
	b.Env.Stop()
}

// install makes what no run changes: rights, namespaces.
func (b *Env) install(ctx context.Context) error {
	for _, name := range []string{systemNamespace, partition.DefaultConfigMap.Namespace, nsFree, nsLender, nsBorrower} {
		if err := b.Namespace(ctx, name, nil); err != nil {
			return err
		}
	}
	for _, ns := range []string{nsFree, nsLender, nsBorrower} {
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ownerName}}
		if err := b.Admin.Create(ctx, owner); err != nil {
			return err
		}
		b.stage.owners[ns] = owner.UID
	}
	for _, o := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: makerAccount}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: makerAccount}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: systemNamespace, Name: makerAccount}},
		},
	} {
		if err := b.Admin.Create(ctx, o); err != nil {
			return err
		}
	}
	if err := b.Apply(ctx, "sandbox/crashstory/testdata/podgroup.yaml"); err != nil {
		return err
	}
	if err := b.InstallSources(ctx); err != nil { // PodGroups are served
		return err
	}
	return b.Apply(ctx, "deploy/manifests/autoscaler.yaml")
}

// limit of clearing up, and of every step of the story. Generous: a busy machine
// is no failure, and a story that is stuck is one.
const limit = testenv.Patience

// clear makes the world as it was before any run, and waits until it is.
func (b *Env) clear(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the last run's world did not go away"))
	defer cancel()
	for _, ns := range []string{nsFree, nsLender, nsBorrower} {
		in := []client.DeleteAllOfOption{client.InNamespace(ns), client.GracePeriodSeconds(0)}
		if err := errors.Join(b.Admin.DeleteAllOf(ctx, &corev1.Pod{}, in...), b.Admin.DeleteAllOf(ctx, podGroup(), in...)); err != nil {
			return err
		}
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: partition.DefaultConfigMap.Namespace, Name: partition.DefaultConfigMap.Name}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: "gpuscale-autoscaler"}}
	for _, err := range []error{
		b.Admin.DeleteAllOf(ctx, &v1alpha1.GPUNodePool{}), b.Admin.DeleteAllOf(ctx, &v1alpha1.GPUQuota{}),
		b.Admin.DeleteAllOf(ctx, &corev1.Node{}), b.Admin.Delete(ctx, config), b.Admin.Delete(ctx, lease),
	} {
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	err := await.Until(ctx, func(context.Context) error {
		if n := len(b.view.nodeList()); n > 0 {
			return fmt.Errorf("%d nodes are left", n)
		}
		for _, ns := range []string{nsFree, nsLender, nsBorrower} {
			var pods corev1.PodList
			if err := b.Admin.List(ctx, &pods, client.InNamespace(ns)); err != nil {
				return err
			}
			if n := len(pods.Items); n > 0 {
				return fmt.Errorf("%d pods are left in %s", n, ns)
			}
		}
		if len(b.view.MIGConfig()) > 0 {
			return errors.New("mig-manager's ConfigMap is left")
		}
		b.fleet.mu.Lock()
		defer b.fleet.mu.Unlock()
		if n := len(b.fleet.hosts); n > 0 {
			return fmt.Errorf("%d machines are left", n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.view.reset()
	b.fleet.reset()
	return nil
}

// set makes the pools and quotas of the story.
func (b *Env) set(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("the pools could not be made"))
	defer cancel()
	return b.Apply(ctx, "sandbox/crashstory/testdata/pools.yaml")
}

// result is the state of the world and what was done in it.
func (b *Env) result(ctx context.Context) (State, error) {
	s, err := read(ctx, b.Admin)
	if err != nil {
		return nil, err
	}
	made, removed, left := b.view.counts()
	return append(s, effects(made, removed, left, b.fleet.repartitions())...), nil
}
