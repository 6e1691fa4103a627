package metric

// The autoscaler's series about its decisions and itself.
var (
	AutoscalerBuildInfo = Desc{
		Name: "gpuscale_autoscaler_build_info", Type: Gauge, Unit: Info, Owner: Autoscaler, Stability: Alpha,
		Help:   "The autoscaler's version. Always 1.",
		Labels: []string{LabelVersion, LabelGoVersion},
	}
	AutoscalerLeader = Desc{
		Name: "gpuscale_autoscaler_leader", Type: Gauge, Unit: Bool, Owner: Autoscaler, Stability: Alpha,
		Help: "1 on the replica that decides.",
	}
	AutoscalerReconciles = Desc{
		Name: "gpuscale_autoscaler_reconciles_total", Type: Counter, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Reconciles (observe, plan, act), by result: "ok" or "error".`,
		Labels: []string{LabelResult},
	}
	AutoscalerReconcileSeconds = Desc{
		Name: "gpuscale_autoscaler_reconcile_phase_duration_seconds", Type: Histogram, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help:   `Time of one reconcile, by phase: "observe", "plan", "act", "publish".`,
		Labels: []string{LabelPhase},
	}
	AutoscalerReconcileAge = Desc{
		Name: "gpuscale_autoscaler_last_reconcile_timestamp_seconds", Type: Gauge, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help: "Unix time at which the last reconcile succeeded.",
	}
	AutoscalerSnapshotAge = Desc{
		Name: "gpuscale_autoscaler_snapshot_age_seconds", Type: Gauge, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help:   `Age of the data of the last plan, by kind: "cluster" since it was read, "prometheus" since it was queried. Absent where nothing was read.`,
		Labels: []string{LabelKind},
	}
	AutoscalerReportsIgnored = Desc{
		Name: "gpuscale_autoscaler_reports_ignored", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Nodes and GPUs in the exporters' series that the last reconcile left out, by reason: "unknown_node" does not exist, "unknown_gpu" has an index beyond the node's GPUs, "disputed" where targets disagree about a GPU and the value is unknown.`,
		Labels: []string{LabelReason},
	}
	AutoscalerLimitExceeded = Desc{
		Name: "gpuscale_autoscaler_limit_exceeded_pods", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Pods of a namespace that the last reconcile left out, since the namespace exceeds a limit of what is read: "pending_pods", "topology_rules", "pods_to_come"; with "disruption_budgets" they are not evicted. Absent where no limit is exceeded; at most 100 series.`,
		Labels: []string{LabelNamespace, LabelReason},
	}
	AutoscalerPlannerPanics = Desc{
		Name: "gpuscale_autoscaler_planner_panics_total", Type: Counter, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: "Reconciles in which the planner panicked and nothing was done: a bug; report it with the output of /debug/panic.",
	}
	AutoscalerEvents = Desc{
		Name: "gpuscale_autoscaler_events_total", Type: Counter, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Kubernetes Events, by result: "written", "merged" with an equal one, "failed".`,
		Labels: []string{LabelResult},
	}
	AutoscalerActions = Desc{
		Name: "gpuscale_autoscaler_actions_total", Type: Counter, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Actions taken, by verb, pool, reason and result: "ok", "error" or "skipped".`,
		Labels: []string{LabelVerb, LabelPool, LabelReason, LabelResult},
	}
	AutoscalerVerdicts = Desc{
		Name: "gpuscale_autoscaler_verdicts", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Subjects of the last plan, by kind ("pod", "pool", "node", "gpu") and reason.`,
		Labels: []string{LabelKind, LabelReason},
	}
	AutoscalerPoolSize = Desc{
		Name: "gpuscale_autoscaler_pool_nodes", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Nodes of a pool, by kind: "min", "max", "target", "size" of those that exist, "ready", "unready" of those, "upcoming" of those that were requested and do not exist yet.`,
		Labels: []string{LabelPool, LabelKind},
	}
	AutoscalerPendingSlices = Desc{
		Name: "gpuscale_autoscaler_pending_slices", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: "Compute slices that pending pods request.",
	}
	AutoscalerUnservedSlices = Desc{
		Name: "gpuscale_autoscaler_unserved_slices", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: "Compute slices that pending pods request and no plan or upcoming node serves.",
	}
	AutoscalerOperations = Desc{
		Name: "gpuscale_autoscaler_operations", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Repartitions under way, by phase: "pending", "succeeded", "failed".`,
		Labels: []string{LabelPhase},
	}
)

func autoscalerSeries() []Desc {
	return append(autoscalerFleet(),
		AutoscalerBuildInfo, AutoscalerLeader, AutoscalerReconciles, AutoscalerReconcileSeconds, AutoscalerReconcileAge,
		AutoscalerSnapshotAge, AutoscalerReportsIgnored, AutoscalerLimitExceeded, AutoscalerPlannerPanics, AutoscalerEvents, AutoscalerActions,
		AutoscalerVerdicts, AutoscalerPoolSize, AutoscalerPendingSlices, AutoscalerUnservedSlices, AutoscalerOperations,
	)
}
