package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// A reconcile comes every second, or every ten when idle, on input that is seconds old.
// Conflicts do not fail half of all reconciles.
const (
	failingReconciles = 0.5
	lateReconcile     = 300
	oldSnapshot       = 180
)

// autoscaler is about whether the autoscaler reconciles at all.
func autoscaler() []Alert {
	return []Alert{
		{
			Name: "GpuscaleAutoscalerNoLeader", Severity: Critical, Enabled: true, Program: metric.Autoscaler, For: 5 * time.Minute,
			Why:     "A Lease changes its holder within a minute.",
			Summary: "No replica of the autoscaler leads",
			Description: "Nothing is scaled, repartitioned or reclaimed, and the fleet's series are gone. Operations in progress stay as they are. " +
				"Look first at the autoscaler's pods, then at its Lease: kubectl -n gpuscale-system get lease.",
			query: fixed("absent(" + metric.AutoscalerLeader.Name + ") or " + sum(metric.AutoscalerLeader.Name) + " == 0"),
		},
		{
			Name: "GpuscaleReconcilesFailing", Severity: Warning, Enabled: true, Program: metric.Autoscaler, Threshold: at(failingReconciles), For: 10 * time.Minute,
			Why:     "A reconcile with a conflict fails and the next one continues. Half of them for ten minutes is more than conflicts.",
			Summary: "{{ $value | humanizePercentage }} of the autoscaler's reconciles fail",
			Description: "Reconciles end with an error, so decisions come late. " +
				"Look first at the autoscaler's log: it has the step and the API server's answer.",
			query: func(p Params) string {
				all := func(m ...string) string { return sum("rate(" + of(metric.AutoscalerReconciles, m...) + "[10m])") }
				return all(`result="error"`) + " / " + all() + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscaleReconcileStale", Severity: Critical, Enabled: true, Program: metric.Autoscaler, Threshold: at(lateReconcile), For: 2 * time.Minute,
			Why:     "A reconcile comes every second, every ten when idle, and its deadlines are below a minute.",
			Summary: "No reconcile of the autoscaler has succeeded for {{ $value | humanizeDuration }}",
			Description: "The autoscaler runs and decides nothing: every reconcile fails, or one hangs. Pods are pending and nothing is added. " +
				"Look first at its log: it shows whether the API server answers.",
			query: func(p Params) string {
				return "time() - " + most(of(metric.AutoscalerReconcileAge)) + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscalePlannerPanicked", Severity: Warning, Enabled: true, Program: metric.Autoscaler,
			Why:     "It is a bug, each time.",
			Summary: "The planner panicked",
			Description: "The planner panicked within the last hour, and in that reconcile nothing was done. It is a bug of ours. " +
				"Look first at /debug/panic on the replica that leads: it has the snapshot. Report it with that.",
			query: fixed(sum("increase("+of(metric.AutoscalerPlannerPanics)+"[1h])") + " > 0"),
		},
		{
			Name: "GpuscaleSnapshotStale", Severity: Warning, Enabled: true, Program: metric.Autoscaler, Threshold: at(oldSnapshot), For: 5 * time.Minute,
			Why:     "The cluster is read each reconcile, Prometheus several times within the validity of its answers.",
			Summary: "The autoscaler plans on data of {{ $labels.kind }} that is {{ $value | humanizeDuration }} old",
			Description: "kind cluster: the API server has not been read. kind prometheus: allocation and use are unknown, so nothing idle is reclaimed, repartitioned or scaled down. " +
				"Look first whether Prometheus answers the autoscaler, and whether exporters answer Prometheus.",
			query: func(p Params) string {
				return most(leads(of(metric.AutoscalerSnapshotAge)), metric.LabelKind) + " > " + p.Threshold
			},
		},
	}
}
