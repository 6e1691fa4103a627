package metric

// What the autoscaler says about its decisions and itself.
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
	AutoscalerRounds = Desc{
		Name: "gpuscale_autoscaler_rounds_total", Type: Counter, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Rounds of observe, plan and act, by result: "ok" or "error".`,
		Labels: []string{LabelResult},
	}
	AutoscalerRoundSeconds = Desc{
		Name: "gpuscale_autoscaler_round_phase_duration_seconds", Type: Histogram, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help:   `Time of one round, by phase: "observe", "plan", "act", "publish".`,
		Labels: []string{LabelPhase},
	}
	AutoscalerRoundAge = Desc{
		Name: "gpuscale_autoscaler_last_round_timestamp_seconds", Type: Gauge, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help: "Unix time at which the last round ended well.",
	}
	AutoscalerSnapshotAge = Desc{
		Name: "gpuscale_autoscaler_snapshot_age_seconds", Type: Gauge, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help:   `Age of what was last planned on, by kind: "cluster" since it was read, "prometheus" since it was asked. Absent where nothing was read.`,
		Labels: []string{LabelKind},
	}
	AutoscalerPlannerPanics = Desc{
		Name: "gpuscale_autoscaler_planner_panics_total", Type: Counter, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: "Rounds in which the planner panicked and nothing was done: a bug to report with what /debug/panic shows.",
	}
	AutoscalerEvents = Desc{
		Name: "gpuscale_autoscaler_events_total", Type: Counter, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Kubernetes Events told, by result: "written", "merged" with one that says the same, "dropped" since too many waited, "failed".`,
		Labels: []string{LabelResult},
	}
	AutoscalerActions = Desc{
		Name: "gpuscale_autoscaler_actions_total", Type: Counter, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Actions taken, by verb, pool, reason and result: "ok", "error" or "skipped".`,
		Labels: []string{LabelVerb, LabelPool, LabelReason, LabelResult},
	}
	AutoscalerVerdicts = Desc{
		Name: "gpuscale_autoscaler_verdicts", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Subjects of the last plan, by kind ("pod", "pool", "node", "card") and reason.`,
		Labels: []string{LabelKind, LabelReason},
	}
	AutoscalerPoolSize = Desc{
		Name: "gpuscale_autoscaler_pool_nodes", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Nodes of a pool, by kind: "min", "max", "target", "size" of those that exist, "ready", "unready" of those, "upcoming" of what was asked for and does not exist yet.`,
		Labels: []string{LabelPool, LabelKind},
	}
	AutoscalerPendingSlices = Desc{
		Name: "gpuscale_autoscaler_pending_slices", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: "Compute slices that pending pods want.",
	}
	AutoscalerUnservedSlices = Desc{
		Name: "gpuscale_autoscaler_unserved_slices", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: "Compute slices that pending pods want and no plan or upcoming node serves.",
	}
	AutoscalerOperations = Desc{
		Name: "gpuscale_autoscaler_operations", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Repartitions under way, by phase: "pending", "succeeded", "failed".`,
		Labels: []string{LabelPhase},
	}
)

func autoscalerSeries() []Desc {
	return append(autoscalerFleet(),
		AutoscalerBuildInfo, AutoscalerLeader, AutoscalerRounds, AutoscalerRoundSeconds, AutoscalerRoundAge,
		AutoscalerSnapshotAge, AutoscalerPlannerPanics, AutoscalerEvents, AutoscalerActions,
		AutoscalerVerdicts, AutoscalerPoolSize, AutoscalerPendingSlices, AutoscalerUnservedSlices, AutoscalerOperations,
	)
}
