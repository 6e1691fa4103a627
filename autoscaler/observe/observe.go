package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

// PoolReader is the part of the providers that an Observer calls; pools.Providers implements it.
type PoolReader interface {
	// List is called concurrently for several pools.
	List(ctx context.Context, pool *v1alpha1.GPUNodePool) (pools.Listing, error)
	Learn(pool *v1alpha1.GPUNodePool, target int, nodes []*corev1.Node) pools.Learned
}

// Options of an Observer. MaxAge, Log, Pods, Foreign and Outlooks are optional.
type Options struct {
	// Cluster lists Pods with their volumes, Nodes, GPUNodePools, PodDisruptionBudgets and mig-manager's
	// ConfigMap. It is a synced cache; objects are not written to.
	Cluster client.Reader
	// Pods returns the cache's own pods once the cache is synced. With nil, Cluster lists them.
	Pods func(context.Context) ([]*corev1.Pod, error)
	// Readings returns Prometheus' latest answers; nil before the first.
	Readings func() *Readings
	Pools    PoolReader
	// ConfigMap has mig-manager's configs.
	ConfigMap client.ObjectKey
	// Foreign returns the gang and queue objects of other projects' APIs; nil where none is
	// watched. While it returns an error nothing is observed: half a gang would look like single
	// pods.
	Foreign func() (foreign.Objects, error)
	// Outlooks returns the forecasts of workloads; nil for none.
	Outlooks func() []Outlook
	// MaxAge bounds the age of the exporters' samples, scrape included; older values are unknown. 0
	// means 30 s.
	MaxAge time.Duration
	Log    *slog.Logger
}

// Observer makes Snapshots. It is not safe for concurrent use.
type Observer struct {
	o    Options
	idle map[idleKey]idleEntry
	// managed are the pools of the last reconcile, or of this one, by name.
	managed map[string]*managed
	slices  map[devicePool][]*foreign.Devices // of each pool's last complete generation
	learned map[string]learned                // by pool
	// expressions caches the compiled CEL expressions of claims and device classes.
	expressions *dracel.Cache

	products   products
	pods       perVersion[plan.Pod]
	nodes      perVersion[nodeFacts]
	requesting perVersion[bool]  // whether a workload's pods request GPUs
	warned     map[string]string // the last warning, by subject
	// absent has the time of the last request for each kind that the API does not have: every try costs a request.
	absent map[string]time.Time
}

// absentFor is the time between two requests for a kind that the API does not have.
const absentFor = time.Minute

// New returns an Observer without history: a GPU that is free counts as free since the first
// Observe.
func New(o Options) *Observer {
	o.MaxAge = cmp.Or(o.MaxAge, 30*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Outlooks == nil {
		o.Outlooks = func() []Outlook { return nil }
	}
	if o.Foreign == nil {
		o.Foreign = func() (foreign.Objects, error) { return nil, nil }
	}
	return &Observer{o: o, idle: map[idleKey]idleEntry{}, warned: map[string]string{}, learned: map[string]learned{}, absent: map[string]time.Time{}, expressions: dracel.NewCache(mostExpressions, dracel.Features{EnableConsumableCapacity: true})}
}

// Observation is a Snapshot and the problems found while reading it.
type Observation struct {
	// Snapshot has no Memory; the loop adds it.
	plan.Snapshot
	// Invalid pools are left out of the Snapshot; no action touches their nodes.
	Invalid map[string]error
	// Foreign are the pools with nodes that another autoscaler made. In the Snapshot those nodes are of no pool.
	Foreign map[string]error
	// Quotas are the cached GPUQuotas. QuotaProblems are the errors of quotas of any kind, by kind
	// and name ("GPUQuota team-a"); the readable part of such a quota holds.
	Quotas        []v1alpha1.GPUQuota
	QuotaProblems map[string]error
	// Contained are the objects that did not pass the planner's check and are set apart in the Snapshot. The
	// loop adds them.
	Contained []plan.Problem
	// Notices is whether a provider gives notices of interruptions. Only Observe reads these.
	Notices bool
	// GrowOnly are the pools whose provider cannot remove a node by name.
	GrowOnly map[string]bool
	// Learned is each pool's history: provisioning times and failures.
	Learned map[string]pools.Learned
	// ReadingsAge is the age of Prometheus' latest answer; negative without one.
	ReadingsAge time.Duration
	// Ignored counts what the exporters' series have and the Snapshot does not use.
	Ignored Ignored
	// Exceeded are the limits that namespaces exceed.
	Exceeded []Exceeded
	// HPAs are those whose pods request GPUs, for display: their demand is in the Snapshot as pods. They are read-only.
	HPAs []*autoscalingv2.HorizontalPodAutoscaler
	// Requests are the ProvisioningRequests to serve.
	Requests []Request
}

// Ignored counts what is left out of the exporters' series.
type Ignored struct {
	Nodes    int // that do not exist
	GPUs     int // with an index beyond the node's number of GPUs
	Disputed int // GPUs on whose values targets disagree: these are unknown
}

// Observe reads everything once. An error means that the cluster cannot be read. Without Prometheus
// there is no error: allocations are unknown.
func (o *Observer) Observe(ctx context.Context, now time.Time) (Observation, error) {
	c, err := o.read(ctx, now)
	if err != nil {
		return Observation{}, err
	}
	out := Observation{Snapshot: plan.Snapshot{Now: now}, Invalid: map[string]error{}, Learned: map[string]pools.Learned{}, GrowOnly: map[string]bool{}, ReadingsAge: -1}
	readings := o.o.Readings()
	if readings != nil {
		out.ReadingsAge = max(0, now.Sub(readings.Taken))
	}
	o.warn("MIG tables", o.products.read(c.nodes.Items))
	out.Tables = o.products.Tables
	o.addPools(ctx, c, &out)
	c.claims.tables, c.claims.pools, c.claims.objects = out.Tables, out.Pools, c.foreign
	devices, tainted := o.sliced(c.foreign.Sorted(foreign.DRASlice)), taintsOfRules(c.foreign.Sorted(foreign.DRATaint))
	c.claims.parts = partsOf(devices, o.learned)
	c.claimable = offeredByClaim(devices, tainted, c.claims.devicesInUse())
	o.addUpcoming(c)
	for i := range c.nodes.Items {
		c.byName[c.nodes.Items[i].Name] = &c.nodes.Items[i]
	}
	c.facts = o.factsOf(c)
	c.data = datasetsOf(c.facts, c.pools.Items)
	c.shares = c.mostShares()
	c.ledger = ledger.New(ledger.Input{
		Quotas: c.quotas.Items, ResourceQuotas: c.resourceQuotas.Items, Namespaces: c.namespaces.Items, Objects: c.foreign,
		Models: c.models(), Tables: out.Tables, Shares: c.shares,
	})
	out.Quotas, out.QuotaProblems = c.quotas.Items, c.ledger.Problems
	o.warnForeign(c)
	o.pods.begin(c.claims)
	out.Pods = c.podsOf()
	out.HPAs, out.Requests = o.hpas(c, out.Pods), c.requests()
	for i := range out.Requests {
		out.Pods = append(out.Pods, out.Requests[i].Booked...)
	}
	out.Forecasts, err = c.expect(o.o.Outlooks(), out.Pods)
	o.warn("forecasts", err)
	out.Tenants = c.ledger.Tenants // includes tenants without headroom for pods to come
	addMoves(out.Pods, c.objects, c.pdbs.Items, now, c.over)
	daemons := c.daemons()
	out.Exceeded = c.over.list()
	bound := grouped(out.Pods, func(p *plan.Pod) string { return p.Node })
	o.addNodes(c, &out, readings, bound)
	ready := o.learn(c, &out, bound, daemons, devices)
	o.warn("resource claims", o.allocate(ctx, c, devices, tainted, &out))
	c.volumes.limit(&out.Snapshot, ready)
	c.addOutside(&out.Snapshot, c.apart)
	return out, nil
}

// grouped returns the elements of a list by their group. Elements without one are left out.
func grouped[T any](list []T, group func(*T) string) map[string][]*T {
	out := map[string][]*T{}
	for i := range list {
		if of := group(&list[i]); of != "" {
			out[of] = append(out[of], &list[i])
		}
	}
	return out
}

// warn logs the problem of a subject when it changes.
func (o *Observer) warn(subject string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if o.warned[subject] == text {
		return
	}
	o.warned[subject] = text
	if err != nil {
		o.o.Log.Warn("invalid input", "what", subject, "err", err)
	}
}

// warnForeign logs which objects of other projects' APIs cannot be read, and which of their quotas
// are invalid: they have no status field for our conditions.
func (o *Observer) warnForeign(c *cluster) {
	var errs []error
	for _, objects := range c.foreign {
		for _, object := range objects {
			if object.Err != nil {
				errs = append(errs, object.Err)
			}
		}
	}
	for of, err := range c.ledger.Problems {
		errs = append(errs, fmt.Errorf("%s: %w", of, err))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	o.warn("gangs and quotas", few(errs))
}

// few joins the first problems, at most 10.
func few(errs []error) error {
	const most = 10
	return errors.Join(errs[:min(len(errs), most)]...)
}

// cluster is the API server's state as cached, and what a reconcile derives from it. It converts pods and pod templates
// to the planner's pods.
type cluster struct {
	now time.Time

	// As listed, and the NodeClaims' nodes.
	nodes          corev1.NodeList
	pods           []*corev1.Pod
	pools          v1alpha1.GPUNodePoolList
	pdbs           policyv1.PodDisruptionBudgetList
	namespaces     corev1.NamespaceList
	resourceQuotas corev1.ResourceQuotaList
	classes        schedulingv1.PriorityClassList
	hpas           autoscalingv2.HorizontalPodAutoscalerList
	quotas         v1alpha1.GPUQuotaList
	foreign        foreign.Objects
	config         partition.Config

	// Derived before pods are converted.
	byName    map[string]*corev1.Node
	limits    map[string][]corev1.LimitRange // by namespace
	claims    *Claims
	volumes   *volumes
	rules     *rules
	network   *foreign.Network
	upcoming  map[string]time.Time  // the nodes that Karpenter makes, and when each is expected to be ready
	claimable map[string]*claimable // what DRA's drivers offer, by node
	facts     map[string]*nodeFacts // of the nodes that belong to a pool or have GPUs
	data      datasets
	shares    int // the most shares of one GPU, over nodes and pools that give GPUs in shares only
	ledger    *ledger.Ledger
	kept      *perVersion[plan.Pod]

	// Found while pods are converted.
	objects   []*corev1.Pod // those of podsOf's result that exist: the result begins with them, in this order
	over      exceeded
	labels    map[string]map[string]bool   // node labels that selectors of pods name, by namespace
	apart     map[*corev1.Pod][]plan.Apart // rules of pods outside
	tolerated *bool                        // whether pods get tolerations for extended resources; nil before it is known
	watching  map[string]bool              // pods, "namespace/name", that have admin access to GPUs and none of their own
	consumers map[string]map[string]bool   // pods by the ProvisioningRequest that they use, "namespace/name"
	members   map[string]map[string]bool   // pods that exist by their Workload (Kueue), "namespace/name"
}

func (o *Observer) read(ctx context.Context, now time.Time) (*cluster, error) {
	c := &cluster{now: now, kept: &o.pods, limits: map[string][]corev1.LimitRange{}, over: exceeded{}, labels: map[string]map[string]bool{}, watching: map[string]bool{}, byName: map[string]*corev1.Node{}, members: map[string]map[string]bool{}}
	var (
		ranges         corev1.LimitRangeList
		volumeClaims   corev1.PersistentVolumeClaimList
		persistent     corev1.PersistentVolumeList
		storage        storagev1.StorageClassList
		drivers        storagev1.CSINodeList
		resourceClaims resourcev1.ResourceClaimList
		templates      resourcev1.ResourceClaimTemplateList
		devices        resourcev1.DeviceClassList
	)
	for _, of := range []struct {
		what  string
		list  client.ObjectList
		maybe bool // the API may lack the kind; then there are no objects
	}{
		{"nodes", &c.nodes, false}, {"GPUNodePools", &c.pools, false}, {"PodDisruptionBudgets", &c.pdbs, false}, {"namespaces", &c.namespaces, false},
		{"LimitRanges", &ranges, false}, {"ResourceQuotas", &c.resourceQuotas, false}, {"PriorityClasses", &c.classes, false},
		{"HorizontalPodAutoscalers", &c.hpas, false}, {"PersistentVolumeClaims", &volumeClaims, false}, {"PersistentVolumes", &persistent, false},
		{"StorageClasses", &storage, false}, {"CSINodes", &drivers, false}, {"GPUQuotas", &c.quotas, true}, {"ResourceClaims", &resourceClaims, true},
		{"ResourceClaimTemplates", &templates, true}, {"DeviceClasses", &devices, true},
	} {
		if now.Sub(o.absent[of.what]) < absentFor {
			continue
		}
		switch err := o.o.Cluster.List(ctx, of.list, client.UnsafeDisableDeepCopy); {
		case of.maybe && meta.IsNoMatchError(err):
			o.absent[of.what] = now
		case err != nil:
			return nil, fmt.Errorf("listing %s: %w", of.what, err)
		}
	}
	var err error
	if c.pods, err = o.listPods(ctx); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	if c.foreign, err = o.o.Foreign(); err != nil {
		return nil, fmt.Errorf("reading gangs and queues: %w", err)
	}
	c.network = c.foreign.Network()
	var cm corev1.ConfigMap
	err = o.o.Cluster.Get(ctx, o.o.ConfigMap, &cm)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("getting ConfigMap %s: %w", o.o.ConfigMap, err)
	}
	c.config, err = partition.ParseConfig(cm.Data[partition.ConfigKey])
	o.warn("mig-manager's config", err) // layouts that only it defines are unknown
	c.claims = NewClaims(resourceClaims.Items, templates.Items, devices.Items, c.pods)
	c.rules = newRules(c.namespaces.Items)
	for _, r := range ranges.Items {
		c.limits[r.Namespace] = append(c.limits[r.Namespace], r)
	}
	c.volumes = newVolumes(volumeClaims.Items, persistent.Items, storage.Items, drivers.Items, c.pods)
	return c, nil
}

// listPods returns all pods. A list by the client would copy each of them in every reconcile, and
// pods are most of the cache.
func (o *Observer) listPods(ctx context.Context) ([]*corev1.Pod, error) {
	if o.o.Pods != nil {
		return o.o.Pods(ctx)
	}
	var list corev1.PodList
	if err := o.o.Cluster.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	out := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}
