package observe

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// PoolReader is what observing needs of the providers; pools.Providers is one.
type PoolReader interface {
	// List is called for several pools at a time.
	List(ctx context.Context, pool *v1alpha1.GPUNodePool) (pools.Listing, error)
	Template(pool *v1alpha1.GPUNodePool, tables mig.Tables) (plan.Template, error)
	Learn(pool *v1alpha1.GPUNodePool, target int, nodes []*corev1.Node) pools.Learned
}

// Options of an Observer. All fields are required but for those that say otherwise, MaxAge and Log.
type Options struct {
	// Cluster is read for Pods, Nodes, GPUNodePools, PodDisruptionBudgets and
	// mig-manager's ConfigMap; a cache that is in sync. Objects are not written to.
	Cluster client.Reader
	// Pods returns the cache's own pods, once it is in sync; nil to have Cluster list them.
	Pods func(context.Context) ([]*corev1.Pod, error)
	// Readings returns what Prometheus said last; nil for nothing yet.
	Readings func() *Readings
	Pools    PoolReader
	// ConfigMap is where mig-manager's configs are.
	ConfigMap client.ObjectKey
	// Foreign returns what other people's APIs have; nil for none of them. While it
	// has an error nothing is observed: half a gang would look like single pods.
	Foreign func() (foreign.Objects, error)
	// Outlooks returns what is expected of workloads; nil for nothing.
	Outlooks func() []Outlook
	// MaxAge of what the exporters say, scrape included; older is unknown. 0
	// takes 30 s.
	MaxAge time.Duration
	Log    *slog.Logger
}

// Observer makes Snapshots. It is used from one goroutine.
type Observer struct {
	o    Options
	idle *tracker
	// What the providers said this round.
	said map[string]said // by pool

	tables  published
	models  models
	pods    converted
	nodes   knownNodes
	scratch []plan.Card // of the node that is being looked at
	reports reports
	wants   map[*foreign.Object]bool // whether a workload's pods want GPUs
	warned  map[string]string        // what was last said of a subject
}

// New returns an Observer that has seen nothing yet: everything free is free
// since it is first seen.
func New(o Options) *Observer {
	if o.MaxAge == 0 {
		o.MaxAge = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Outlooks == nil {
		o.Outlooks = func() []Outlook { return nil }
	}
	if o.Foreign == nil {
		o.Foreign = func() (foreign.Objects, error) { return nil, nil }
	}
	return &Observer{o: o, idle: newTracker(o.MaxAge), warned: map[string]string{}}
}

// Observation is a Snapshot and what could not be put into it.
type Observation struct {
	// Snapshot without Memory, which is the loop's.
	plan.Snapshot
	// Invalid pools are not in the Snapshot; nothing happens to their nodes.
	Invalid map[string]error
	// Quotas are the GPUQuotas as they stand in the cache. QuotaProblems is what is
	// wrong with quotas of any kind, by kind and name ("GPUQuota team-a"); they hold
	// as far as they can be understood.
	Quotas        []v1alpha1.GPUQuota
	QuotaProblems map[string]error
	// GrowOnly are the pools of which no certain node can be taken away.
	GrowOnly map[string]bool
	// Learned is what the past of each pool says.
	Learned map[string]pools.Learned
	// ReadingsAge is how old Prometheus' answer is; negative when there is none.
	ReadingsAge time.Duration
	// HPAs whose pods want GPUs, for people.
	HPAs []HPA
}

// Observe reads everything once. An error means that the cluster could not be
// read; Prometheus being away is no error, holders are then unknown.
func (o *Observer) Observe(ctx context.Context, now time.Time) (Observation, error) {
	c, err := o.read(ctx)
	if err != nil {
		return Observation{}, err
	}
	out := Observation{Snapshot: plan.Snapshot{Now: now}, Invalid: map[string]error{}, Learned: map[string]pools.Learned{}, GrowOnly: map[string]bool{}, ReadingsAge: -1}
	readings := o.o.Readings()
	if readings != nil {
		out.ReadingsAge = max(0, now.Sub(readings.Taken))
	}
	out.Tables, err = o.tables.of(c.nodes)
	o.warn("MIG tables", err)
	o.said = map[string]said{}
	conflicts, members, listings := pools.Conflicts(c.pools, c.nodes), membersOf(c.nodes), o.list(ctx, c.pools)
	for i := range c.pools {
		name := c.pools[i].Name
		pool, err := o.pool(&c.pools[i], listings[i], out.Tables)
		if err = cmp.Or(conflicts[name], err); err != nil {
			out.Invalid[name] = err
			continue
		}
		out.GrowOnly[name] = o.said[name].unnamed
		out.Learned[name] = o.learn(&pool, &c.pools[i], members[name])
		out.Pools = append(out.Pools, pool)
	}
	valid := map[string]bool{}
	for _, p := range out.Pools {
		valid[p.Name] = true
	}
	ours := gpuNodes(c.nodes)
	o.share(c, &out)
	v := newConverter(c)
	v.kept = &o.pods
	o.pods.begin(c.claims)
	out.Pods = v.podsOf(ours)
	o.pods.end()
	out.HPAs = o.hpas(v, out.Pods)
	out.Forecasts, err = v.expect(o.o.Outlooks(), out.Pods, c.models, now)
	o.warn("forecasts", err)
	out.Tenants = c.ledger.Tenants // with those that have no room for pods to come
	addMoves(out.Pods, v.objects, c.pdbs)
	bound := boundTo(out.Pods)
	out.Nodes = make([]plan.Node, 0, len(ours))
	o.nodes.begin(c.claims)
	for i := range c.nodes {
		n := &c.nodes[i]
		if !ours[n.Name] {
			continue
		}
		in := nodeInput{
			node: n, config: c.config, claims: c.claims, tables: out.Tables, models: &o.models, known: &o.nodes, reading: readings.node(n.Name, now, o.o.MaxAge), bound: bound[n.Name], now: now,
		}
		if pool := n.Labels[v1alpha1.NodePoolLabel]; valid[pool] && !o.going(n) {
			in.pool, in.keep = pool, c.keeps(pool) || o.said[pool].unnamed
		}
		out.Nodes = append(out.Nodes, o.node(in))
	}
	o.nodes.end()
	countSizes(out.Pools, out.Nodes)
	learnOthers(out.Pools, out.Nodes)
	o.idle.sweep(now)
	o.warn("MIG layouts", o.reports.sweep())
	return out, nil
}

// cluster is what the API server says, as it stands in the cache.
type cluster struct {
	nodes  []corev1.Node
	pods   []*corev1.Pod
	pools  []v1alpha1.GPUNodePool
	pdbs   []policyv1.PodDisruptionBudget
	claims *Claims
	config partition.Config
	models map[string]string // of the nodes' cards
	shares
}

// keeps reports whether the nodes of a pool must not be given back.
func (c *cluster) keeps(pool string) bool {
	for i := range c.pools {
		if c.pools[i].Name == pool {
			return c.pools[i].Spec.ScaleDown.Disabled
		}
	}
	return false
}

func (o *Observer) read(ctx context.Context) (*cluster, error) {
	var nodes corev1.NodeList
	if err := o.o.Cluster.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	pods, err := o.listPods(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	var gpuPools v1alpha1.GPUNodePoolList
	if err := o.o.Cluster.List(ctx, &gpuPools, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing GPUNodePools: %w", err)
	}
	var pdbs policyv1.PodDisruptionBudgetList
	if err := o.o.Cluster.List(ctx, &pdbs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing PodDisruptionBudgets: %w", err)
	}
	c := &cluster{nodes: nodes.Items, pods: pods, pools: gpuPools.Items, pdbs: pdbs.Items, models: modelsOf(nodes.Items)}
	if err := o.readShares(ctx, c); err != nil {
		return nil, err
	}
	claims, err := ReadClaims(ctx, o.o.Cluster, pods)
	if err != nil {
		return nil, err
	}
	c.claims = claims
	var cm corev1.ConfigMap
	err = o.o.Cluster.Get(ctx, o.o.ConfigMap, &cm)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("getting ConfigMap %s: %w", o.o.ConfigMap, err)
	}
	if c.config, err = partition.ParseConfig(cm.Data[partition.ConfigKey]); err != nil {
		// Somebody broke the file: layouts that only it tells are unknown.
		o.o.Log.Warn("mig-manager's config cannot be read", "configmap", o.o.ConfigMap.String(), "err", err)
		c.config = partition.Config{}
	}
	return c, nil
}

// listPods returns all pods there are. A list of the client's would copy each of them
// once a round, and they are most of what there is.
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

// boundTo are the pods on each node.
func boundTo(pods []plan.Pod) map[string][]*plan.Pod {
	out := map[string][]*plan.Pod{}
	for i := range pods {
		if p := &pods[i]; p.Node != "" {
			out[p.Node] = append(out[p.Node], p)
		}
	}
	return out
}

func countSizes(pools []plan.Pool, nodes []plan.Node) {
	size := map[string]int{}
	for _, n := range nodes {
		size[n.Pool]++
	}
	for i := range pools {
		p := &pools[i]
		p.Size = size[p.Name]
		if p.Fixed { // as many as there are, no more and no fewer
			p.Min, p.Max, p.Target = p.Size, p.Size, p.Size
		}
	}
}
