package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// A reconcile comes every second, or every ten when idle, on input that is seconds old.
const (
	lateReconcile = 300
	oldSnapshot   = 180
)

// autoscaler is about whether the autoscaler reconciles at all.
func autoscaler() []Alert {
	return []Alert{
		{
			Name: "GpuscaleAutoscalerDown", Severity: Critical, Program: metric.Autoscaler, Threshold: at(lateReconcile), For: 5 * time.Minute,
			Why:     "A reconcile comes every second, every ten when idle, and its deadlines are below a minute. A Lease changes its holder within a minute.",
			Summary: "The autoscaler completes no reconcile",
			Description: "The autoscaler was scraped within the last day, and no replica has completed a reconcile for minutes: none runs, none leads, every reconcile fails, or one hangs. Pods are pending and nothing is added, repartitioned or reclaimed. " +
				"Look first at the autoscaler's pods and log, then at its Lease: kubectl -n gpuscale-system get lease.",
			query: func(p Params) string {
				return wasThere(of(metric.AutoscalerLeader)) + " unless on (" + on() + ") " + group("time() - "+of(metric.AutoscalerReconcileAge)+" < "+p.Threshold)
			},
		},
		{
			Name: "GpuscaleSnapshotStale", Severity: Warning, Program: metric.Autoscaler, Threshold: at(oldSnapshot), For: 5 * time.Minute,
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
