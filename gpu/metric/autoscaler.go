package metric

// The autoscaler's series about its decisions and itself.
var (
	AutoscalerBuildInfo = emit(Autoscaler, Gauge, Info, "gpuscale_autoscaler_build_info",
		"The autoscaler's version. Always 1.", LabelVersion, LabelGoVersion)
	AutoscalerLeader = emit(Autoscaler, Gauge, Bool, "gpuscale_autoscaler_leader",
		"1 on the replica that decides.")
	AutoscalerReconciles = emit(Autoscaler, Counter, None, "gpuscale_autoscaler_reconciles_total",
		`Reconciles (observe, plan, act), by result: "ok" or "error".`, LabelResult)
	AutoscalerReconcileSeconds = emit(Autoscaler, Histogram, Seconds, "gpuscale_autoscaler_reconcile_phase_duration_seconds",
		`Time of one reconcile, by phase: "observe", "plan", "act", "publish".`, LabelPhase)
	AutoscalerReconcileAge = emit(Autoscaler, Gauge, Seconds, "gpuscale_autoscaler_last_reconcile_timestamp_seconds",
		"Unix time at which the last reconcile succeeded.")
	AutoscalerSnapshotAge = emit(Autoscaler, Gauge, Seconds, "gpuscale_autoscaler_snapshot_age_seconds",
		`Age of the data of the last plan, by kind: "cluster" since it was read, "prometheus" since it was queried. Absent where nothing was read.`,
		LabelKind)
	AutoscalerReportsIgnored = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_reports_ignored",
		`Nodes and GPUs in the exporters' series that the last reconcile left out, by reason: "unknown_node" does not exist, "unknown_gpu" has an index beyond the node's GPUs, "disputed" where targets disagree about a GPU and the value is unknown.`,
		LabelReason)
	AutoscalerLimitExceeded = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_limit_exceeded_pods",
		`Pods of a namespace that the last reconcile left out, since the namespace exceeds a limit of what is read: "pending_pods", "topology_rules", "node_constraints", "pods_to_come", "daemonsets"; with "disruption_budgets" they are not evicted. Absent where no limit is exceeded; at most 100 series.`,
		LabelNamespace, LabelReason)
	AutoscalerInvalidObjects = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_invalid_objects",
		`Objects that the last reconcile left out, since they do not pass the planner's check, by kind: "pool", "node", "pod", "tenant" (a quota), "forecast". The log names each and its field.`,
		LabelKind)
	AutoscalerUnsavedPools = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_unsaved_pools",
		"Pools whose state the API server does not store, so that the last reconcile took no action on them. The log names each and the error.")
	AutoscalerPlannerPanics = emit(Autoscaler, Counter, None, "gpuscale_autoscaler_planner_panics_total",
		"Reconciles in which the planner panicked and nothing was done: a bug; report it with the output of /debug/panic.")
	AutoscalerEvents = emit(Autoscaler, Counter, None, "gpuscale_autoscaler_events_total",
		`Kubernetes Events, by result: "written", "merged" with an equal one, "failed".`, LabelResult)
	AutoscalerActions = emit(Autoscaler, Counter, None, "gpuscale_autoscaler_actions_total",
		`Actions taken, by verb, pool, reason and result: "ok", "error" or "skipped".`,
		LabelVerb, LabelPool, LabelReason, LabelResult)
	AutoscalerVerdicts = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_verdicts",
		`Subjects of the last plan, by kind ("pod", "pool", "node", "gpu") and reason.`, LabelKind, LabelReason)
	AutoscalerPoolSize = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_pool_nodes",
		`Nodes of a pool, by kind: "min", "max", "target", "size" of those that exist, "ready", "unready" of those, "upcoming" of those that were requested and do not exist yet.`,
		LabelPool, LabelKind)
	AutoscalerPendingSlices = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_pending_slices",
		"Compute slices that pending pods request.")
	AutoscalerUnservedSlices = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_unserved_slices",
		"Compute slices that pending pods request and no plan or upcoming node serves.")
	AutoscalerOperations = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_operations",
		`Repartitions under way, by phase: "pending", "succeeded", "failed".`, LabelPhase)
)
