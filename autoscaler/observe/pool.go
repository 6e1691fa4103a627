package observe

import (
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
	defaultNodeIdle     = 10 * time.Minute
	defaultInstanceIdle = time.Minute
	// defaultRepartition is mig-manager's usual duration, most of it the device plugin's restart.
	defaultRepartition = 30 * time.Second
)

// pool converts a GPUNodePool; Size is set later. The error names the field.
func (o *Observer) pool(p *v1alpha1.GPUNodePool, listed listed, tables mig.Tables) (plan.Pool, error) {
	if p.Undecodable != "" {
		return plan.Pool{}, fmt.Errorf("the stored object does not have this version's schema: %s; apply it again", p.Undecodable)
	}
	if n := len(p.Name); n > content.LabelValueMaxLength {
		return plan.Pool{}, fmt.Errorf("metadata.name: %d characters, and a value of its nodes' label %s has at most %d; create it with a shorter name",
			n, v1alpha1.NodePoolLabel, content.LabelValueMaxLength)
	}
	listing, err := listed.Listing, listed.err
	if err != nil {
		return plan.Pool{}, err
	}
	template, err := pools.Template(p, tables, listing)
	if err != nil {
		return plan.Pool{}, err
	}
	template.Taints, _ = starting(template.Taints, p.Spec.Template.StartupTaints)
	out := plan.Pool{
		Name: p.Name, Min: int(p.Spec.Min), Max: int(p.Spec.Max),
		Target: listing.Target, Template: template,
		Priority: p.Spec.Priority, Spot: p.Spec.Spot, Freeze: p.Spec.Freeze, Fixed: p.Spec.Provider.Fixed != nil,
		ReadyAfter: orElse(p.Spec.ReadyAfter, defaultReadyAfter),
		IdleAfter:  orElse(p.Spec.ScaleDown.IdleAfter, defaultNodeIdle),

		PricePerHour: decimal(p.Spec.PricePerHour), InterruptionsPerHour: decimal(p.Spec.InterruptionsPerHour),
	}
	if p.Spec.PricePerHour == nil && listing.SpotPrice != nil {
		out.PricePerHour = *listing.SpotPrice
	}
	o.listings[p.Name] = listing
	out.MIG, err = poolMIG(p.Spec.MIG, template, tables)
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
			return plan.PoolMIG{}, fmt.Errorf("spec.mig.allowedProfiles[%d]: %q is no profile of %s", i, name, model)
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

// membersOf returns the Node objects of each pool, without those that another autoscaler made.
func membersOf(nodes []corev1.Node, foreign map[string]bool) map[string][]*corev1.Node {
	return grouped(nodes, func(n *corev1.Node) string {
		if foreign[n.Name] {
			return ""
		}
		return n.Labels[v1alpha1.NodePoolLabel]
	})
}

// listed is a provider's answer about one pool.
type listed struct {
	pools.Listing
	err error
}

// maxListing bounds the concurrent calls of providers.
const maxListing = 16

// list calls the providers of all pools concurrently: a reconcile waits for the slowest, not for
// the sum.
func (o *Observer) list(ctx context.Context, all []v1alpha1.GPUNodePool) []listed {
	out := make([]listed, len(all))
	var asking errgroup.Group
	asking.SetLimit(maxListing)
	for i := range all {
		if all[i].DeletionTimestamp != nil {
			out[i].err = errors.New("the pool is being deleted")
			continue
		}
		if all[i].Undecodable != "" {
			continue
		}
		asking.Go(func() error {
			out[i].Listing, out[i].err = o.o.Pools.List(ctx, &all[i])
			return nil
		})
	}
	_ = asking.Wait() // each has its own error
	return out
}

// interruptedAfter is the time between EC2's spot notice and the interruption.
const interruptedAfter = 2 * time.Minute

// notice reports whether the node has a notice of its provider. No new pod belongs there, so the node
// counts as cordoned by others. at is when the provider removes the node, zero where it only might.
func (o *Observer) notice(n *corev1.Node) (at time.Time, noticed bool) {
	if n.Spec.ProviderID == "" {
		return time.Time{}, false
	}
	part := pools.LastPart(n.Spec.ProviderID)
	for _, l := range o.listings[n.Labels[v1alpha1.NodePoolLabel]].Leaving {
		switch {
		case l.Instance != part:
		case l.Kind == pools.Interruption:
			return l.At.Add(interruptedAfter), true
		default:
			return time.Time{}, true
		}
	}
	return time.Time{}, false
}

// going reports whether the node is removed and only its Node object is left. The pool's target
// does not count it any more, so neither may its size: else the next scale-up would add one node
// too many.
func (o *Observer) going(n *corev1.Node) bool {
	return n.Spec.ProviderID != "" && slices.Contains(o.listings[n.Labels[v1alpha1.NodePoolLabel]].Going, pools.LastPart(n.Spec.ProviderID))
}
