package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Half of the last hour in backoff is a provider that does not deliver: a pool is in
// backoff for 1 to 30 minutes, with requests in between. Four interruptions of one pool
// in an hour are more than usual.
const (
	backoffShare  = 0.5
	interruptions = 4
)

// capacity is about demand that the fleet cannot serve, and why.
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
			Why:     "Backoff comes and goes while a provider fails, so its share of an hour counts.",
			Summary: "Pool {{ $labels.pool }} does not get the nodes it requests",
			Description: "The pool's provider failed to deliver, and the pool was in backoff for {{ $value | humanizePercentage }} of the last hour. Other pools take over where they fit. " +
				"Look first at kubectl describe gpunodepool {{ $labels.pool }}, then at the provider: quota, stock-outs, a broken image.",
			query: func(p Params) string {
				return most("avg_over_time("+of(metric.AutoscalerPoolBackoff)+"[1h])", metric.LabelPool) + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscalePoolAtMax", Severity: Warning, Enabled: true, Program: metric.Autoscaler, For: 30 * time.Minute,
			Why:     "Jobs end; what is pending for half an hour needs a decision.",
			Summary: "{{ $value | humanize }} GPUs' worth of pods are pending (shape {{ $labels.shape }}): the pools that fit are at their maximum",
			Description: "Pods are pending that a pool could serve above its maximum. " +
				"Look first at gpuscale-autoscaler explain pod NAMESPACE/NAME for one of them; raise spec.max of the pool, or inform the pods' owners.",
			query: fixed(sum(of(metric.AutoscalerPendingGPUs, `reason="PoolAtMax"`), metric.LabelShape) + " > 0"),
		},
		{
			Name: "GpuscaleTenantStarved", Severity: Warning, Enabled: true, Program: metric.Autoscaler, For: 30 * time.Minute,
			Why:     "A node is ready within half an hour, and reclaiming ends long before.",
			Summary: "Tenant {{ $labels.tenant }} has {{ $value | humanize }} GPUs pending and less than its guarantee",
			Description: "A guarantee is not met: the tenant's pods are pending while it uses less than its guarantee, so neither scaling up nor, where policy.reclaimBorrowed is set, reclaiming has helped. " +
				"Look first at gpuscale-autoscaler explain pod NAMESPACE/NAME for one of its pods: it gives the reason.",
			query: fixed(tenant("pending") + " > 0 and on (" + on(metric.LabelTenant) + ") (" + tenant("used") + " < " + tenant("guaranteed") + ")"),
		},
		{
			Name: "GpuscaleHolding", Severity: Critical, Enabled: true, Program: metric.Autoscaler, For: 10 * time.Minute,
			Why:     "Nodes of a rack that restarts return within ten minutes.",
			Summary: "The autoscaler holds everything: too many nodes are unready",
			Description: "More nodes are unready than the policy tolerates, so the observed state is not trusted and nothing is done, not even scaling up. " +
				"Look first for a failed network or control plane; then bring the nodes back or delete them.",
			query: fixed(sum(verdicts(`kind="pool"`, `reason="TooManyUnready"`)) + " > 0"),
		},
		{
			Name: "GpuscaleBoundReached", Severity: Info, Enabled: true, Program: metric.Autoscaler, For: time.Hour,
			Why:     "Limits are per reconcile, per ten minutes and per hour. What is blocked for an hour meets the last of them, or one that is too low.",
			Summary: "A limit of the policy has blocked a {{ $labels.kind }} for an hour",
			Description: "A limit on actions, on nodes added or on nodes removed is reached, and stays so. " +
				"Look first at docs/guardrails.md for the limit, and whether the fleet has outgrown it. It exists to stop unexplained growth.",
			query: fixed(sum(verdicts(`reason="BoundReached"`), metric.LabelKind) + " > 0"),
		},
		{
			Name: "GpuscaleFrozen", Severity: Info, Enabled: true, Program: metric.Autoscaler, For: 12 * time.Hour,
			Why:     "Longer than a shift.",
			Summary: "Pool {{ $labels.pool }} has been frozen for half a day",
			Description: "The pool, or all of them, was frozen, and nothing has been done there since. " +
				"Look first who froze it: kubectl get gpunodepool {{ $labels.pool }} -o yaml --show-managed-fields. Lift the freeze once its reason is gone.",
			query: fixed(most(of(metric.AutoscalerFrozen), metric.LabelPool) + " == 1"),
		},
		{
			Name: "GpuscaleRepartitionFailed", Severity: Warning, Enabled: true, Program: metric.Autoscaler,
			Why:     "A GPU that could not be repartitioned is retried after its cooldown, so one is enough to look.",
			Summary: "A repartition in pool {{ $labels.pool }} was undone: {{ $labels.reason }}",
			Description: "A GPU could not be repartitioned within the last hour. RepartitionOverdue: no answer before the deadline. RepartitionFailed: mig-manager or the agent reported a failure. " +
				"Look first at the events of the node, then at the agent's or mig-manager's log there; often a process on the host still uses the GPU.",
			query: fixed(happened(of(metric.AutoscalerActions, `reason=~"RepartitionOverdue|RepartitionFailed"`), "1h", metric.LabelPool, metric.LabelReason) + " > 0"),
		},
		{
			Name: "GpuscaleSpotInterruptions", Severity: Warning, Enabled: true, Program: metric.Autoscaler, Threshold: at(interruptions),
			Why:     "One or two an hour are usual for spot. More means that a zone or a type is being reclaimed.",
			Summary: "{{ $value | humanize }} nodes of pool {{ $labels.pool }} were interrupted within an hour",
			Description: "The provider interrupts nodes of the pool more often than usual, and drains have two minutes each. " +
				"Look first whether replacements come, and at the pool's interruptionsPerHour, by which the planner weighs spot.",
			query: func(p Params) string {
				return sum("increase("+of(metric.AutoscalerInterruptions)+"[1h])", metric.LabelPool) + " >= " + p.Threshold
			},
		},
		{
			Name: "GpuscaleForecastUnmet", Severity: Info, Enabled: true, Program: metric.Autoscaler, For: 30 * time.Minute,
			Why:     "Capacity added ahead is ready within half an hour, unless none is available.",
			Summary: "Capacity runs out: the forecast of {{ $value | humanize }} workloads exceeds it",
			Description: "Workloads are forecast to grow, there is no headroom for them, and at least one pool is at its maximum. " +
				"Look first at gpuscale_autoscaler_forecast_gpus by workload and at the pools that are full; raise a maximum before the load comes.",
			query: fixed(sum(verdicts(`kind="forecast"`, `reason="ForecastUnmet"`)) + " > 0 and on (" + on() + ") (" +
				pool("target") + " >= " + pool("max") + ")"),
		},
	}
}
