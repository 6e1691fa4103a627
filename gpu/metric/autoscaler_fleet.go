package metric

// The autoscaler's series about the fleet. Only the leader exports these, so that
// sums over replicas are right.
//
// Their labels are never empty: Prometheus takes an empty label for a missing one
// and uses the scrape target's own instead. NotApplicable is the value instead.
var (
	AutoscalerGPUSeconds = Desc{
		Name: "gpuscale_autoscaler_gpu_seconds_total", Type: Counter, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help: `GPU time by use: 1 is one GPU for one second. place is "busy", "slack" (allocated and computing now and then), "idle" (allocated and not computing), ` +
			`"unmeasured" (allocated), "free", "fragmented", "stranded", "cordoned", "repartitioning", "booting", "unready", "sick" or "unknown". ` +
			`tenant and namespace are those of the pod it is allocated to, ` +
			`"(none)" for none; pool is "(none)" for nodes of no pool. Sums beyond 2,000 are added up under "(other)". The sum over places is the capacity.`,
		Labels: []string{LabelPool, LabelModel, LabelTenant, LabelNamespace, LabelPlace},
	}
	AutoscalerCapacityGPUSeconds = Desc{
		Name: "gpuscale_autoscaler_capacity_gpu_seconds_total", Type: Counter, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help:   `GPU time of all existing GPUs: 1 is one GPU for one second.`,
		Labels: []string{LabelPool, LabelModel},
	}
	AutoscalerGPUs = Desc{
		Name: "gpuscale_autoscaler_gpus", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: `GPUs, and parts of GPUs, in each state: "free", "allocated", "fragmented", "stranded", "cordoned", "repartitioning", "unknown", "booting", "unready" or "sick". ` +
			`The sum over states is the number of GPUs.`,
		Labels: []string{LabelPool, LabelModel, LabelState},
	}
	AutoscalerStrandedGPUs = Desc{
		Name: "gpuscale_autoscaler_stranded_gpus", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: `GPUs, and parts of GPUs, that are free and that no pending pod can use. cause is "odd", "unpartitioned", "shape" or "scattered" (fragmented: another layout would help), ` +
			`"unreachable", "no_cpu" or "no_memory" (stranded: the node prevents it).`,
		Labels: []string{LabelPool, LabelCause},
	}
	AutoscalerTenantGPUs = Desc{
		Name: "gpuscale_autoscaler_tenant_gpus", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: `A tenant's quota and use in GPUs, slices counted as parts of one: "guaranteed", "limit" (absent when there is none), "used", "borrowed" beyond the guarantee, ` +
			`"lent" of it to others, "pending".`,
		Labels: []string{LabelTenant, LabelKind},
	}
	AutoscalerPoolPrice = Desc{
		Name: "gpuscale_autoscaler_pool_price_per_hour", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Price of one node of a pool for an hour, in the currency of its spec; spot is "true" or "false". Absent where no price is stated.`,
		Labels: []string{LabelPool, LabelSpot},
	}
	AutoscalerCost = Desc{
		Name: "gpuscale_autoscaler_cost_per_hour", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   "What the nodes of a pool that exist cost in an hour, ready or not. Absent where no price is stated.",
		Labels: []string{LabelPool},
	}
	AutoscalerPendingGPUs = Desc{
		Name: "gpuscale_autoscaler_pending_gpus", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: `GPUs that pending pods request and that nothing serves, upcoming nodes included, by shape of one pod ("1", "8", "1g.10gb", "0.5", "(unreadable)" counted as pods) and the ` +
			`verdict's reason. Shapes beyond 100 are "(other)".`,
		Labels: []string{LabelShape, LabelReason},
	}
	AutoscalerPodPendingSeconds = Desc{
		Name: "gpuscale_autoscaler_pod_pending_seconds", Type: Histogram, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help:   `Time from the creation of a pod that requests GPUs until it was bound to a node. tenant is "(none)" for none.`,
		Labels: []string{LabelTenant},
	}
	AutoscalerNodeReady = Desc{
		Name: "gpuscale_autoscaler_node_ready_seconds", Type: Histogram, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help:   "Time from the request for a node until it was ready and showed its GPUs.",
		Labels: []string{LabelPool},
	}
	AutoscalerDecisionSeconds = Desc{
		Name: "gpuscale_autoscaler_decision_seconds", Type: Histogram, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help: "Time from when a pod was pending until the first action for it was carried out.",
	}
	AutoscalerPoolFailures = Desc{
		Name: "gpuscale_autoscaler_pool_failures_total", Type: Counter, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Actions on a pool that failed, by the reason of the action, and requests after which no node appeared ("NothingCame").`,
		Labels: []string{LabelPool, LabelReason},
	}
	AutoscalerPoolBackoff = Desc{
		Name: "gpuscale_autoscaler_pool_backoff", Type: Gauge, Unit: Bool, Owner: Autoscaler, Stability: Alpha,
		Help:   "1 while a pool is not scaled up because its provider failed to deliver.",
		Labels: []string{LabelPool},
	}
	AutoscalerFrozen = Desc{
		Name: "gpuscale_autoscaler_frozen", Type: Gauge, Unit: Bool, Owner: Autoscaler, Stability: Alpha,
		Help:   "1 while a pool, or all of them, is frozen by its owner.",
		Labels: []string{LabelPool},
	}
	AutoscalerInterruptions = Desc{
		Name: "gpuscale_autoscaler_interruptions_total", Type: Counter, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   "Nodes of a pool for which the provider announced an interruption.",
		Labels: []string{LabelPool},
	}
	AutoscalerHPAReplicas = Desc{
		Name: "gpuscale_autoscaler_hpa_replicas", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Replicas of an HPA whose pods request GPUs: "min", "max", "current", "desired".`,
		Labels: []string{LabelNamespace, LabelHPA, LabelKind},
	}
	AutoscalerHPALimited = Desc{
		Name: "gpuscale_autoscaler_hpa_limited", Type: Gauge, Unit: Bool, Owner: Autoscaler, Stability: Alpha,
		Help:   "1 for each reason of the HPA's conditions for which an HPA whose pods request GPUs is not able to scale, not active or limited. Absent otherwise.",
		Labels: []string{LabelNamespace, LabelHPA, LabelReason},
	}
	AutoscalerForecastGPUs = Desc{
		Name: "gpuscale_autoscaler_forecast_gpus", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `GPUs that a workload ("namespace/name") is forecast to need: "low", "expected", "high". Absent while there is no forecast.`,
		Labels: []string{LabelWorkload, LabelKind},
	}
	AutoscalerForecastError = Desc{
		Name: "gpuscale_autoscaler_forecast_error_ratio", Type: Gauge, Unit: Ratio, Owner: Autoscaler, Stability: Alpha,
		Help:   "Mean error of the workload's forecast in a back-test over its own past, as a share of the mean. Absent while there is no forecast.",
		Labels: []string{LabelWorkload},
	}
)

// NotApplicable is the value of a label that does not apply, Other that of what
// exceeds a bound. Neither can be a name in Kubernetes.
const (
	NotApplicable = "(none)"
	Other         = "(other)"
)

// PlaceWords are the values of "place", allocated ones first.
func PlaceWords() []string {
	return []string{"busy", "slack", "idle", "unmeasured", "free", "fragmented", "stranded", "cordoned", "repartitioning", "booting", "unready", "sick", "unknown"}
}

func autoscalerFleet() []Desc {
	return []Desc{
		AutoscalerGPUSeconds, AutoscalerCapacityGPUSeconds, AutoscalerGPUs, AutoscalerStrandedGPUs, AutoscalerTenantGPUs,
		AutoscalerPoolPrice, AutoscalerCost, AutoscalerPendingGPUs, AutoscalerPodPendingSeconds, AutoscalerNodeReady, AutoscalerDecisionSeconds,
		AutoscalerPoolFailures, AutoscalerPoolBackoff, AutoscalerFrozen, AutoscalerInterruptions, AutoscalerHPAReplicas,
		AutoscalerHPALimited, AutoscalerForecastGPUs, AutoscalerForecastError,
	}
}
