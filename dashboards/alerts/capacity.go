package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Half of the last hour in backoff is a provider that does not deliver: a pool is
// left alone for 1 to 30 minutes, and asked in between. Four notices of one pool in
// an hour is more than the odd one.
const (
	backoffShare  = 0.5
	interruptions = 4
)

// capacity is about what the fleet cannot give, and why.
func capacity() []Alert {
	tenant := func(kind string) string {
		return most(of(metric.AutoscalerTenantGPUs, `kind="`+kind+`"`), metric.LabelTenant)
	}
	pool := func(kind string) string {
		return most(of(metric.AutoscalerPoolSize, `kind="`+kind+`"`), metric.LabelPool)
	}
	verdicts := func(matchers ...string) string { return of(metric.AutoscalerVerdicts, matchers...) }
	return []Alert{
		{
			Name: "GpuscalePoolBackingOff", Severity: Warning, Enabled: true, Program: metric.Autoscaler, Threshold: at(backoffShare), For: 10 * time.Minute,
			Why:     "Backoff comes and goes while a provider fails, so its share of an hour is looked at.",
			Summary: "Pool {{ $labels.pool }} does not get the nodes it asks for",
			Description: "The pool's provider failed to deliver, and the pool was left alone for {{ $value | humanizePercentage }} of the last hour. Other pools take over where they fit. " +
				"Look first at kubectl describe gpunodepool {{ $labels.pool }}, then at the provider: quota, stock-outs, a broken image.",
			query: func(p Params) string {
				return most("avg_over_time("+of(metric.AutoscalerPoolBackoff)+"[1h])", metric.LabelPool) + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscalePoolAtMax", Severity: Warning, Enabled: true, Program: metric.Autoscaler, For: 30 * time.Minute,
			Why:     "Jobs end; what waits for half an hour waits for somebody to decide.",
			Summary: "{{ $value | humanize }} cards' worth of pods wait (shape {{ $labels.shape }}): the pools that fit are at their maximum",
			Description: "Pods wait that a pool could serve if it were allowed to grow. " +
				"Look first at gpuscale-autoscaler explain pod NAMESPACE/NAME for one of them; raise spec.max of the pool, or leave it and tell who waits.",
			query: fixed(sum(of(metric.AutoscalerWaitingGPUs, `reason="PoolAtMax"`), metric.LabelShape) + " > 0"),
		},
		{
			Name: "GpuscaleTenantStarved", Severity: Warning, Enabled: true, Program: metric.Autoscaler, For: 30 * time.Minute,
			Why:     "A node is there within half an hour, and reclaiming is done long before.",
			Summary: "Tenant {{ $labels.tenant }} waits for {{ $value | humanize }} cards and has less than it is guaranteed",
			Description: "A guarantee is not kept: the tenant's pods wait while it uses less than it is guaranteed, so neither reclaiming nor buying has helped. " +
				"Look first at gpuscale-autoscaler explain pod NAMESPACE/NAME for one of its pods: the reason says what stands against it.",
			query: fixed(tenant("waiting") + " > 0 and on (" + on(metric.LabelTenant) + ") (" + tenant("used") + " < " + tenant("guaranteed") + ")"),
		},
		{
			Name: "GpuscaleHolding", Severity: Critical, Enabled: true, Program: metric.Autoscaler, For: 10 * time.Minute,
			Why:     "Nodes of a rack that restarts are back within ten minutes.",
			Summary: "The autoscaler holds everything: too many nodes are unready",
			Description: "More nodes are unready than the policy tolerates, so what is seen cannot be trusted and nothing is done, buying included. " +
				"Look first for a failed network or control plane; then bring the nodes back or delete them.",
			query: fixed(sum(verdicts(`kind="pool"`, `reason="TooManyUnready"`)) + " > 0"),
		},
		{
			Name: "GpuscaleBoundReached", Severity: Info, Enabled: true, Program: metric.Autoscaler, For: time.Hour,
			Why:     "Bounds are of a round, of ten minutes and of an hour. What has been held for an hour meets the last of them, or one that is too low.",
			Summary: "A bound of the policy has held up a {{ $labels.kind }} for an hour",
			Description: "A bound on actions, on nodes asked for or on nodes given back is reached, and stays so. " +
				"Look first at docs/rails.md for the bound, and whether the fleet has outgrown it. Growth nobody can explain is why it is there.",
			query: fixed(sum(verdicts(`reason="BoundReached"`), metric.LabelKind) + " > 0"),
		},
		{
			Name: "GpuscaleFrozen", Severity: Info, Enabled: true, Program: metric.Autoscaler, For: 12 * time.Hour,
			Why:     "Longer than a shift: whoever froze it has gone home.",
			Summary: "Pool {{ $labels.pool }} has been frozen for half a day",
			Description: "Somebody froze the pool, or all of them, and nothing has been done there since. " +
				"Look first who did: kubectl get gpunodepool {{ $labels.pool }} -o yaml --show-managed-fields. Lift the freeze when its reason has gone.",
			query: fixed(most(of(metric.AutoscalerFrozen), metric.LabelPool) + " == 1"),
		},
		{
			Name: "GpuscaleRepartitionFailed", Severity: Warning, Enabled: true, Program: metric.Autoscaler,
			Why:     "A card that could not be cut is tried again after its cooldown, so one is enough to look.",
			Summary: "A repartition in pool {{ $labels.pool }} was undone: {{ $labels.reason }}",
			Description: "A card could not be cut anew within the last hour. RepartitionOverdue: nobody answered before the deadline. RepartitionFailed: mig-manager or the agent said no. " +
				"Look first at the events of the node, then at the agent's or mig-manager's log there; often a process on the host still holds the card.",
			query: fixed(happened(of(metric.AutoscalerActions, `reason=~"RepartitionOverdue|RepartitionFailed"`), "1h", metric.LabelPool, metric.LabelReason) + " > 0"),
		},
		{
			Name: "GpuscaleSpotInterruptions", Severity: Warning, Enabled: true, Program: metric.Autoscaler, Threshold: at(interruptions),
			Why:     "One or two an hour is what spot is. More means that a zone or a type is being taken back.",
			Summary: "{{ $value | humanize }} nodes of pool {{ $labels.pool }} were taken back within an hour",
			Description: "The provider takes nodes of the pool away faster than usual, and drains have two minutes each. " +
				"Look first whether replacements come, and what the pool's interruptionsPerHour says: the planner weighs spot with it.",
			query: func(p Params) string {
				return sum("increase("+of(metric.AutoscalerInterruptions)+"[1h])", metric.LabelPool) + " >= " + p.Threshold
			},
		},
		{
			Name: "GpuscaleForecastUnmet", Severity: Info, Enabled: true, Program: metric.Autoscaler, For: 30 * time.Minute,
			Why:     "Room that is made ahead is made within half an hour, unless nothing can be had.",
			Summary: "Capacity runs out: {{ $value | humanize }} workloads are expected to need more than there will be",
			Description: "Workloads are expected to grow, there is no room for that, and at least one pool is at its maximum. " +
				"Look first at gpuscale_autoscaler_forecast_gpus by workload and at the pools that are full; raise a maximum before the load comes.",
			query: fixed(sum(verdicts(`kind="forecast"`, `reason="ForecastUnmet"`)) + " > 0 and on (" + on() + ") (" +
				pool("target") + " >= " + pool("max") + ")"),
		},
	}
}
