package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Half of the last hour in backoff is a provider that does not deliver: a pool is in
// backoff for 1 to 30 minutes, with requests in between.
const backoffShare = 0.5

// capacity is about demand that the fleet cannot serve, and why.
func capacity() []Alert {
	tenant := func(kind string) string {
		return most(of(metric.AutoscalerTenantGPUs, `kind="`+kind+`"`), metric.LabelTenant)
	}
	return []Alert{
		{
			Name: "GpuscalePoolBackingOff", Severity: Warning, Program: metric.Autoscaler, Threshold: at(backoffShare), For: 10 * time.Minute,
			Why:     "Backoff comes and goes while a provider fails, so its share of an hour counts.",
			Summary: "Pool {{ $labels.pool }} does not get the nodes it requests",
			Description: "The pool's provider failed to deliver, and the pool was in backoff for {{ $value | humanizePercentage }} of the last hour. Other pools take over where they fit. " +
				"Look first at kubectl describe gpunodepool {{ $labels.pool }}, then at the provider: quota, stock-outs, a broken image.",
			query: func(p Params) string {
				return most("avg_over_time("+of(metric.AutoscalerPoolBackoff)+"[1h])", metric.LabelPool) + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscalePoolAtMax", Severity: Warning, Program: metric.Autoscaler, For: 30 * time.Minute,
			Why:     "Jobs end; what is pending for half an hour needs a decision.",
			Summary: "{{ $value | humanize }} GPUs' worth of pods are pending (shape {{ $labels.shape }}): the pools that fit are at their maximum",
			Description: "Pods are pending that a pool could serve above its maximum. " +
				"Look first at gpuscale-autoscaler explain pod NAMESPACE/NAME for one of them; raise spec.max of the pool, or inform the pods' owners.",
			query: fixed(sum(of(metric.AutoscalerPendingGPUs, `reason="PoolAtMax"`), metric.LabelShape) + " > 0"),
		},
		{
			Name: "GpuscaleTenantStarved", Severity: Warning, Program: metric.Autoscaler, For: 30 * time.Minute,
			Why:     "A node is ready within half an hour, and reclaiming ends long before.",
			Summary: "Tenant {{ $labels.tenant }} has {{ $value | humanize }} GPUs pending and less than its guarantee",
			Description: "A guarantee is not met: the tenant's pods are pending while it uses less than its guarantee, so neither scaling up nor, where policy.reclaimBorrowed is set, reclaiming has helped. " +
				"Look first at gpuscale-autoscaler explain pod NAMESPACE/NAME for one of its pods: it gives the reason.",
			query: fixed(tenant("pending") + " > 0 and on (" + on(metric.LabelTenant) + ") (" + tenant("used") + " < " + tenant("guaranteed") + ")"),
		},
		{
			Name: "GpuscaleHolding", Severity: Critical, Program: metric.Autoscaler, For: 10 * time.Minute,
			Why:     "Nodes of a rack that restarts return within ten minutes.",
			Summary: "The autoscaler holds everything: too many nodes are unready",
			Description: "More nodes are unready than the policy tolerates, so the observed state is not trusted and nothing is done, not even scaling up. " +
				"Look first for a failed network or control plane; then bring the nodes back or delete them.",
			query: fixed(sum(of(metric.AutoscalerVerdicts, `kind="pool"`, `reason="TooManyUnready"`)) + " > 0"),
		},
		{
			Name: "GpuscaleRepartitionFailed", Severity: Warning, Program: metric.Autoscaler,
			Why:     "A GPU that could not be repartitioned is retried after its cooldown, so one is enough to look.",
			Summary: "A repartition in pool {{ $labels.pool }} was undone: {{ $labels.reason }}",
			Description: "A GPU could not be repartitioned within the last hour. RepartitionOverdue: no answer before the deadline. RepartitionFailed: mig-manager or the agent reported a failure. " +
				"Look first at the events of the node, then at the agent's or mig-manager's log there; often a process on the host still uses the GPU.",
			query: fixed(happened(of(metric.AutoscalerActions, `reason=~"RepartitionOverdue|RepartitionFailed"`), "1h", metric.LabelPool, metric.LabelReason) + " > 0"),
		},
	}
}
