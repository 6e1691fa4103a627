package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/serve"
)

// component in Events, leases and user agents.
const component = "gpuscale-autoscaler"

// run runs the autoscaler until ctx ends. It returns an error when this replica loses
// leadership.
func run(ctx context.Context, c Config, f flags, log *slog.Logger) error {
	tuneCollector()
	kube.UseLogger(log)
	ctrllog.SetLogger(logr.FromSlogHandler(log.With("from", "controller-runtime").Handler()))
	rc, err := kube.Config(kube.Options{Kubeconfig: f.kubeconfig, UserAgent: component + "/" + buildinfo.Version()})
	if err != nil {
		return err
	}
	holder, err := identity()
	if err != nil {
		return err
	}
	mgr, err := newManager(rc, c, f.dryRun, holder)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	recorder, err := newRecorder(ctx, rc, mgr.GetScheme(), registry)
	if err != nil {
		return err
	}
	waker := loop.NewWaker()
	watcher, err := newWatcher(rc, c.ProvisioningClasses, waker.Stir, log)
	if err != nil {
		return err
	}
	outlooks, err := newOutlooks(c, log)
	if err != nil {
		return err
	}
	epoch := newEpoch(c.Election, f.dryRun, holder, mgr.GetAPIReader(), log)
	writer, err := client.New(act.Fence(rc, epoch), client.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), Cache: &client.CacheOptions{Reader: mgr.GetCache()},
	})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	l, reader, err := assemble(assembly{
		config: c, dryRun: f.dryRun, log: log, client: writer, epoch: epoch, live: mgr.GetAPIReader(), pods: podsOf(mgr.GetCache()),
		recorder: recorder, registry: registry, wake: waker.C(), changed: waker.Changed(), foreign: watcher.Objects, outlooks: outlooks.Latest,
	})
	if err != nil {
		return err
	}
	if err := wakeOn(ctx, mgr, waker); err != nil {
		return err
	}
	server, err := newServer(f.listen, l, c, registry, mgr.GetCache(), log)
	if err != nil {
		return err
	}
	return runAll(ctx, mgr, log, server, watcher.Run, l.Run, reader.Run, outlooks.Run)
}

// wakeOn makes the loop reconcile on changes in the cluster.
func wakeOn(ctx context.Context, mgr manager.Manager, waker *loop.Waker) error {
	for _, on := range []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&corev1.Pod{}, waker.Handler()}, {&corev1.Node{}, waker.Nodes()}, {&v1alpha1.GPUNodePool{}, waker.Specs()}, {&v1alpha1.GPUQuota{}, waker.Specs()},
	} {
		informer, err := mgr.GetCache().GetInformer(ctx, on.object, cache.BlockUntilSynced(false))
		if meta.IsNoMatchError(err) {
			continue // the CRD of GPUQuota is optional
		}
		if err == nil {
			_, err = informer.AddEventHandler(on.handler)
		}
		if err != nil {
			return fmt.Errorf("watching %T: %w", on.object, err)
		}
	}
	return nil
}

// podsOf returns a function that lists the pods of a cache without copying them, once the
// cache is in sync.
func podsOf(from cache.Cache) func(context.Context) ([]*corev1.Pod, error) {
	return func(ctx context.Context) ([]*corev1.Pod, error) {
		informer, err := from.GetInformer(ctx, &corev1.Pod{})
		if err != nil {
			return nil, err
		}
		shared, ok := informer.(interface{ GetStore() toolscache.Store })
		if !ok {
			return nil, fmt.Errorf("pod informer has no store: %T", informer)
		}
		all := shared.GetStore().List()
		pods := make([]*corev1.Pod, 0, len(all))
		for _, o := range all {
			if p, ok := o.(*corev1.Pod); ok {
				pods = append(pods, p)
			}
		}
		return pods, nil
	}
}

// newManager returns a manager with the caches and the leader election. A dry run has no
// leader election, which would write a lease.
func newManager(rc *rest.Config, c Config, dryRun bool, holder string) (manager.Manager, error) {
	configMap := fields.OneTermEqualSelector("metadata.name", c.MIGManager.ConfigMap)
	lock, err := newLock(rc, c.Election, holder)
	if err != nil {
		return nil, err
	}
	mgr, err := manager.New(rc, manager.Options{
		Scheme:  scheme.New(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}:                   {Transform: observe.TrimPods()},
				&corev1.Node{}:                  {Transform: observe.TrimNode},
				&corev1.PersistentVolume{}:      {Transform: observe.TrimVolume},
				&corev1.PersistentVolumeClaim{}: {Transform: observe.TrimVolume},
				&corev1.ConfigMap{}:             {Namespaces: map[string]cache.Config{c.MIGManager.Namespace: {FieldSelector: configMap}}},
			},
		},
		LeaderElection:                      c.Election.Enabled && !dryRun,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &c.Election.LeaseDuration.Duration,
		RenewDeadline:                       &c.Election.RenewDeadline.Duration,
		RetryPeriod:                         &c.Election.RetryPeriod.Duration,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return mgr, nil
}

// runAll runs the server, and while this replica leads, the others.
func runAll(ctx context.Context, mgr manager.Manager, log *slog.Logger, server *serve.Server, leading ...func(context.Context) error) error {
	for _, run := range leading {
		if err := mgr.Add(manager.RunnableFunc(run)); err != nil {
			return fmt.Errorf("adding to the manager: %w", err)
		}
	}
	log.Info("starting", "version", buildinfo.Version())
	return serveWhile(ctx, server, mgr.Start)
}
