package observe

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
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
	listing, err := listed.Listing, listed.err
	if err != nil {
		return plan.Pool{}, err
	}
	template, err := pools.Template(p, tables, listing)
	if err != nil {
		return plan.Pool{}, err
	}
	out := plan.Pool{
		Name: p.Name, Min: int(p.Spec.Min), Max: int(p.Spec.Max),
		Target: listing.Target, Template: template,
		Priority: p.Spec.Priority, Spot: p.Spec.Spot, Freeze: p.Spec.Freeze, Fixed: p.Spec.Provider.Fixed != nil,
		ReadyAfter: orElse(p.Spec.ReadyAfter, defaultReadyAfter),
		IdleAfter:  orElse(p.Spec.ScaleDown.IdleAfter, defaultNodeIdle),
	}
	if out.PricePerHour, err = notNegative("spec.pricePerHour", p.Spec.PricePerHour); err != nil {
		return plan.Pool{}, err
	}
	if out.InterruptionsPerHour, err = notNegative("spec.interruptionsPerHour", p.Spec.InterruptionsPerHour); err != nil {
		return plan.Pool{}, err
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
		Repartition: spec.Actuator == partition.ActuatorManager || spec.Actuator == "" || spec.Actuator == partition.ActuatorAgent,
		KeepsBusy:   spec.Actuator == partition.ActuatorAgent,
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

// notNegative reads a decimal number, 0 for nil.
func notNegative(field string, q *resource.Quantity) (float64, error) {
	if q == nil {
		return 0, nil
	}
	if q.Sign() < 0 {
		return 0, fmt.Errorf("%s: %s is below zero", field, q)
	}
	return q.AsApproximateFloat64(), nil
}

func orElse(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.Duration
}
