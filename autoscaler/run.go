package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/serve"
)

// component in Events, leases and user agents.
const component = "gpuscale-autoscaler"

// run runs the autoscaler until ctx ends. It returns an error when this replica loses
// leadership.
func run(ctx context.Context, c Config, f *flags, log *slog.Logger) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	kube.UseLogger(log)
	ctrllog.SetLogger(logr.FromSlogHandler(log.With("from", "controller-runtime").Handler()))
	rc, err := kube.Config(kube.Options{Kubeconfig: f.kubeconfig, UserAgent: component + "/" + buildinfo.Version()})
	if err != nil {
		return err
	}
	rc.DisableCompression = true // as in kube-scheduler: each of about twenty watches would keep a decoder of 43 KiB
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding the host name: %w", err)
	}
	holder := host + "_" + string(uuid.NewUUID()) // of this process: after a restart it is another one
	mgr, err := newManager(rc, c, f.dryRun, holder)
	if err != nil {
		return err
	}
	live := mgr.GetAPIReader()
	epoch := newEpoch(c.Election, f.dryRun, holder, live, log)
	writer, err := client.New(act.Fence(rc, epoch), client.Options{ // reads from caches, and writes under epoch
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), Cache: &client.CacheOptions{Reader: mgr.GetCache()},
	})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	waker := loop.NewWaker()
	if err := wakeOn(ctx, mgr, waker); err != nil {
		return err
	}
	watcher, err := newWatcher(rc, c.ProvisioningClasses, waker.Stir, log)
	if err != nil {
		return err
	}
	outlooks, err := newOutlooks(c, log)
	if err != nil {
		return err
	}
	reader, err := newReader(c, log)
	if err != nil {
		return err
	}
	providers, err := newProviders(c, writer, live, epoch, log)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	configMap := client.ObjectKey{Namespace: c.MIGManager.Namespace, Name: c.MIGManager.ConfigMap}
	o := loop.Options{
		Observer: observe.New(observe.Options{
			Cluster: writer, Pods: podsOf(mgr.GetCache()), Readings: reader.Latest, Pools: providers, ConfigMap: configMap,
			Foreign: watcher.Objects, Outlooks: outlooks.Latest, MaxAge: c.Prometheus.MaxAge, Log: log,
		}),
		Actor: act.New(act.Options{
			Client: writer, Live: live, Pools: providers, Partition: partition.NewManager(writer, live, configMap), Policy: c.Policy,
			ConfigDelay: c.MIGManager.ConfigDelay, Nominate: c.Nominate, DryRun: f.dryRun, Log: log,
		}),
		Store: loop.NewStatusStore(writer, live, epoch), Policy: c.Policy, DryRun: f.dryRun,
		Interval: c.Interval, IdleInterval: c.IdleInterval, Settle: c.Settle, Waker: waker,
		Registry: registry, Log: log,
	}
	if !f.dryRun {
		recorder, err := newRecorder(ctx, rc, mgr.GetScheme(), registry)
		if err != nil {
			return err
		}
		o.Publisher = loop.NewClusterPublisher(writer, recorder, log)
	}
	l := loop.New(o)
	if c.IdleInterval > c.Interval {
		reader.Idle = l.State.Unhurried
	}
	server, err := newServer(f.listen, l, c, registry, mgr.GetCache(), log)
	if err != nil {
		return err
	}
	return runAll(ctx, mgr, log, server, watcher.Run, l.Run, reader.Run, outlooks.Run)
}

// garbagePercent is the GOGC of the process unless the environment sets one. Most allocations live for one reconcile:
// the default 100 would double the memory of the caches and save little CPU time.
const garbagePercent = 50

// wakeOn makes the loop reconcile on changes in the cluster.
func wakeOn(ctx context.Context, mgr manager.Manager, waker *loop.Waker) error {
	for _, on := range []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&corev1.Pod{}, waker.Pods()}, {&corev1.Node{}, waker.Nodes()}, {&v1alpha1.GPUNodePool{}, waker.Specs()}, {&v1alpha1.GPUQuota{}, waker.Specs()},
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
		shared, ok := informer.(toolscache.SharedIndexInformer)
		if !ok {
			return nil, fmt.Errorf("pod informer has no index: %T", informer)
		}
		return listers.NewPodLister(shared.GetIndexer()).List(labels.Everything())
	}
}

// newManager returns a manager with the caches and the leader election. holder is the identity in the lease, against
// which writes are checked. A dry run has no leader election, since that would write a lease.
func newManager(rc *rest.Config, c Config, dryRun bool, holder string) (manager.Manager, error) {
	configMap := fields.OneTermEqualSelector("metadata.name", c.MIGManager.ConfigMap)
	e := c.Election
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, e.Namespace, e.Name, resourcelock.ResourceLockConfig{Identity: holder}, rc, e.RenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("preparing lease %s/%s: %w", e.Namespace, e.Name, err)
	}
	mgr, err := manager.New(rc, manager.Options{
		Scheme:         scheme.New(),
		MapperProvider: boundedMapper(discoveryTimeout),
		Metrics:        metricsserver.Options{BindAddress: "0"},
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
		LeaderElection:                      e.Enabled && !dryRun,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       &e.LeaseDuration,
		RenewDeadline:                       &e.RenewDeadline,
		RetryPeriod:                         &e.RetryPeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return mgr, nil
}

// discoveryTimeout is the time-out of one request for the API server's resources. Without it an
// API server that accepts connections and does not answer blocks the start for ever.
const discoveryTimeout = 30 * time.Second

// discoveryEvery is the interval at which new APIs are looked for.
const discoveryEvery = 30 * time.Second

func boundedMapper(timeout time.Duration) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return func(rc *rest.Config, shared *http.Client) (meta.RESTMapper, error) {
		own := *shared
		own.Timeout = timeout
		return apiutil.NewDynamicRESTMapper(rc, &own)
	}
}

// runAll runs the server, and while this replica leads, the others.
func runAll(ctx context.Context, mgr manager.Manager, log *slog.Logger, server *serve.Server, leading ...func(context.Context) error) error {
	for _, run := range leading {
		if err := mgr.Add(manager.RunnableFunc(run)); err != nil {
			return fmt.Errorf("adding to the manager: %w", err)
		}
	}
	log.Info("starting", "version", buildinfo.Version())
	together, ctx := errgroup.WithContext(ctx)
	together.Go(func() error { return server.Run(ctx) }) // without it there are no probes
	together.Go(func() error { return mgr.Start(ctx) })
	return together.Wait()
}

// newEpoch returns this replica's epoch, which begins when it leads; nil in a dry run, which writes nothing. Without
// leader election there is no lease to check, and the replica that started last leads.
func newEpoch(c ElectionConfig, dryRun bool, holder string, live client.Reader, log *slog.Logger) *act.Epoch {
	if dryRun {
		return nil
	}
	e := &act.Epoch{Holder: holder, Live: live, Now: time.Now, Log: log}
	if c.Enabled {
		e.Lease = client.ObjectKey{Namespace: c.Namespace, Name: c.Name}
	}
	return e
}

// newWatcher watches gangs and queues of other APIs (JobSet, Kueue and others), and ProvisioningRequests of these
// classes. It calls changed when one of them changes, which ends the idle interval.
func newWatcher(rc *rest.Config, classes []string, changed func(), log *slog.Logger) (*foreign.Watcher, error) {
	objects, err := dynamic.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	apis, err := discovery.NewDiscoveryClientForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &foreign.Watcher{Client: objects, Discovery: apis, Classes: classes, Every: discoveryEvery, Changed: changed, Log: log}, nil
}

// Bounds of the requests for Events: the number in a second, and the number at once.
const eventQPS, eventBurst = 20, 100

// newRecorder returns a recorder that writes Events until ctx ends. client-go merges and bounds
// them; recording never blocks.
func newRecorder(ctx context.Context, rc *rest.Config, scheme *runtime.Scheme, registry prometheus.Registerer) (record.EventRecorder, error) {
	rc = rest.CopyConfig(rc)
	rc.QPS, rc.Burst = eventQPS, eventBurst
	rc.ContentType, rc.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	d := metric.AutoscalerEvents
	sink := countingSink{&typed.EventSinkImpl{Interface: client.CoreV1().Events("")},
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)}
	registry.MustRegister(sink.counts)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(sink)
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component}), nil
}

// countingSink counts writes of Events by result.
type countingSink struct {
	record.EventSink
	counts *prometheus.CounterVec
}

// Create implements record.EventSink.
func (s countingSink) Create(e *corev1.Event) (*corev1.Event, error) {
	e, err := s.EventSink.Create(e)
	s.count("written", err)
	return e, err
}

// Patch implements record.EventSink. It adds to the count of an equal Event.
func (s countingSink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	e, err := s.EventSink.Patch(e, patch)
	if !apierrors.IsNotFound(err) { // then it is created again
		s.count("merged", err)
	}
	return e, err
}

func (s countingSink) count(result string, err error) {
	if err != nil {
		result = "failed"
	}
	s.counts.WithLabelValues(result).Inc()
}
