package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// Defaults of GPUNodePool fields.
const (
	defaultReadyAfter   = 3 * time.Minute
	defaultInstanceIdle = time.Minute
	// defaultRepartition is mig-manager's usual duration, most of it the device plugin's restart.
	defaultRepartition = 30 * time.Second
)

// managed is a GPUNodePool in a reconcile.
type managed struct {
	*v1alpha1.GPUNodePool
	listing pools.Listing
	listed  time.Time  // when the provider gave this listing
	failing error      // the provider's error now, where listing is an earlier answer; else nil
	err     error      // why it is left out of the Snapshot; it names the field
	usual   []plan.GPU // of a new node
}

func (m *managed) startupTaints() []v1alpha1.Taint {
	return slices.Concat(m.Spec.Template.StartupTaints, m.listing.StartupTaints)
}

// pool converts a pool that its provider has listed; Size is set later.
func (m *managed) pool(tables mig.Tables) (out plan.Pool, err error) {
	if m.err != nil {
		return out, m.err
	}
	template, err := pools.Template(m.GPUNodePool, tables, m.listing)
	if err != nil {
		return out, err
	}
	template.Taints, _ = starting(template.Taints, m.startupTaints())
	out = plan.Pool{
		Name: m.Name, Min: int(m.Spec.Min), Max: int(m.Spec.Max),
		Target: m.listing.Target, Failed: m.listing.Failed, FailedWhy: m.listing.FailedWhy, Template: template,
		Priority: m.Spec.Priority, Spot: m.Spec.Spot, Freeze: m.Spec.Freeze, Fixed: m.Spec.Provider.Fixed != nil,
		ReadyAfter: orElse(m.Spec.ReadyAfter, defaultReadyAfter),
		IdleAfter:  orElse(m.Spec.ScaleDown.IdleAfter, plan.DefaultIdleAfter), IdleAdapts: m.Spec.ScaleDown.IdleAfter == nil,

		PricePerHour: decimal(m.Spec.PricePerHour), InterruptionsPerHour: decimal(m.Spec.InterruptionsPerHour),
	}
	if m.Spec.PricePerHour == nil && m.listing.SpotPrice != nil {
		out.PricePerHour = *m.listing.SpotPrice
	}
	m.usual = template.GPUs
	out.MIG, err = poolMIG(m.Spec.MIG, template, tables)
	return out, err
}

func poolMIG(spec *v1alpha1.MIG, template plan.Template, tables mig.Tables) (plan.PoolMIG, error) {
	if spec == nil || len(template.GPUs) == 0 {
		return plan.PoolMIG{}, nil
	}
	out := plan.PoolMIG{
		Repartition: spec.Actuator == contract.ActuatorManager || spec.Actuator == "" || spec.Actuator == contract.ActuatorAgent,
		KeepsBusy:   spec.Actuator == contract.ActuatorAgent,
		IdleAfter:   orElse(spec.IdleAfter, defaultInstanceIdle),
		Duration:    defaultRepartition,
	}
	if len(spec.AllowedProfiles) == 0 {
		return out, nil
	}
	model := template.GPUs[0].Model.Name
	table, ok := tables.ForModel(model)
	if !ok {
		return plan.PoolMIG{}, fmt.Errorf("spec.mig.allowedProfiles: %s has no MIG", model)
	}
	for i, name := range spec.AllowedProfiles {
		profile, ok := table.Exact(name)
		if !ok {
			return plan.PoolMIG{}, fmt.Errorf("spec.mig.allowedProfiles[%d]: %q is not a profile of %s", i, name, model)
		}
		out.Allowed = append(out.Allowed, profile)
	}
	return out, nil
}

// decimal reads a decimal number, 0 for nil, at most 1e9. The CRD admits none below 0.
func decimal(q *resource.Quantity) float64 {
	if q == nil {
		return 0
	}
	return min(max(q.AsApproximateFloat64(), 0), 1e9)
}

func orElse(d *metav1.Duration, otherwise time.Duration) time.Duration {
	return ptr.Deref(d, metav1.Duration{Duration: otherwise}).Duration
}

// maxListing bounds the concurrent calls of providers.
const maxListing = 16

// listingLasts is how long a provider's last answer is used while the provider does not answer. Without an answer the
// pool is invalid and its upcoming nodes do not count, so other pools would add nodes for the same pods.
const listingLasts = 5 * time.Minute

// list lists a pool. While the provider does not answer, its last answer for the same spec is used. A Problem counts as
// an answer.
func (m *managed) list(ctx context.Context, from PoolReader, last *managed, now time.Time) {
	m.listing, m.err = from.List(ctx, m.GPUNodePool)
	problem := (*pools.Problem)(nil)
	switch {
	case m.err == nil:
		m.listed = now
	case last != nil && last.UID == m.UID && last.Generation == m.Generation && now.Sub(last.listed) < listingLasts && !errors.As(m.err, &problem):
		m.listing, m.listed, m.failing, m.err = last.listing, last.listed, m.err, nil
	}
}

// list calls the providers of all pools concurrently: a reconcile waits for the slowest, not for
// the sum.
func (o *Observer) list(ctx context.Context, all []v1alpha1.GPUNodePool, now time.Time) map[string]*managed {
	out := make(map[string]*managed, len(all))
	var asking errgroup.Group
	asking.SetLimit(maxListing)
	for i := range all {
		m := &managed{GPUNodePool: &all[i]}
		out[m.Name] = m
		switch {
		case m.Undecodable != "":
			m.err = fmt.Errorf("the stored object does not have this version's schema: %s; apply it again", m.Undecodable)
		case len(m.Name) > content.LabelValueMaxLength:
			m.err = fmt.Errorf("metadata.name: %d characters, and a value of its nodes' label %s has at most %d; create it with a shorter name",
				len(m.Name), v1alpha1.NodePoolLabel, content.LabelValueMaxLength)
		case m.DeletionTimestamp != nil:
			m.err = errors.New("the pool is being deleted")
		default:
			asking.Go(func() error {
				m.list(ctx, o.o.Pools, o.managed[m.Name], now)
				return nil
			})
		}
	}
	_ = asking.Wait() // each has its own error
	return out
}

// addPools adds the pools to an Observation, those that are invalid with their reasons.
func (o *Observer) addPools(ctx context.Context, c *cluster, out *Observation) {
	o.managed = o.list(ctx, c.pools.Items, c.now)
	stopped, beside := pools.Foreign(c.pools.Items, c.nodes.Items)
	out.Foreign = beside
	conflicts := pools.Conflicts(c.pools.Items)
	labelled := grouped(c.nodes.Items, func(n *corev1.Node) string { return n.Labels[v1alpha1.NodePoolLabel] })
	for i := range c.pools.Items {
		m := o.managed[c.pools.Items[i].Name]
		pool, err := m.pool(out.Tables)
		if m.err = cmp.Or(conflicts[m.Name], stopped[m.Name], err); m.err != nil {
			out.Invalid[m.Name] = m.err
			continue
		}
		asg := m.Spec.Provider.ASG
		out.Notices = out.Notices || asg != nil && asg.InterruptionQueue != ""
		l := o.o.Pools.Learn(m.GPUNodePool, pool.Target, slices.DeleteFunc(labelled[m.Name], func(n *corev1.Node) bool { return o.poolOf(n) == nil }))
		if l.ReadyAfter > 0 {
			pool.ReadyAfter = l.ReadyAfter
		}
		out.GrowOnly[m.Name], out.Learned[m.Name], pool.BackoffUntil = m.listing.Unnamed, l, l.BackoffUntil
		if until := m.listed.Add(listingLasts); m.failing != nil && until.After(pool.BackoffUntil) {
			pool.BackoffUntil = until
		}
		o.warn("provider of pool "+m.Name, m.failing)
		pool.Template.Labels = c.network.WithNew(pool.Template.Labels, m.Name)
		out.Pools = append(out.Pools, pool)
	}
}

// poolOf returns the valid pool that a node is of, nil for none.
func (o *Observer) poolOf(n *corev1.Node) *managed {
	if m := o.managed[n.Labels[v1alpha1.NodePoolLabel]]; m != nil && m.err == nil && !pools.IsForeign(m.GPUNodePool, n.Labels) && !o.going(n) {
		return m
	}
	return nil
}

// listed returns the pool that a node's label names with its provider's answer; an empty one for none.
func (o *Observer) listed(n *corev1.Node) *managed {
	return cmp.Or(o.managed[n.Labels[v1alpha1.NodePoolLabel]], &managed{})
}

// notice reports whether the provider has given notice of the node's interruption. No new pod belongs there, so the
// node counts as cordoned by others. at is when the provider removes the node; zero where it is not certain to.
func (o *Observer) notice(n *corev1.Node) (at time.Time, noticed bool) {
	if n.Spec.ProviderID == "" {
		return time.Time{}, false
	}
	part := pools.LastPart(n.Spec.ProviderID)
	for _, l := range o.listed(n).listing.Notices {
		if l.Instance == part {
			return l.Ends, true
		}
	}
	return time.Time{}, false
}

// going reports whether the pool's target does not count the node: the machine is removed and only its Node object is
// left, or the machine is stopped in a warm pool. The pool's size must not count such a node either: the next scale-up
// would add one node too many.
func (o *Observer) going(n *corev1.Node) bool {
	part, m := pools.LastPart(n.Spec.ProviderID), o.listed(n)
	switch {
	case pools.Terminates(n):
		return true
	case part == "":
		return false
	case slices.Contains(m.listing.Going, part):
		return true
	}
	return m.listing.Counted != nil && !slices.Contains(m.listing.Counted, part) && n.CreationTimestamp.Add(clockSkew).Before(m.listed)
}
