package metric

// The autoscaler's series about the fleet. Only the leader exports these, so that
// sums over replicas are right.
//
// A label that does not apply is NotApplicable, never empty: Prometheus takes an empty
// label for a missing one and uses the scrape target's own.
var (
	AutoscalerGPUSeconds = emit(Autoscaler, Counter, Seconds, "gpuscale_autoscaler_gpu_seconds_total",
		`GPU time by use: 1 is one GPU for one second. place is "busy", "slack" (allocated and computing now and then), "idle" (allocated and not computing), `+
			`"unmeasured" (allocated), "free", "fragmented", "stranded", "cordoned", "repartitioning", "booting", "unready", "sick" or "unknown". `+
			`tenant and namespace are those of the pod it is allocated to, `+
			`"(none)" for none; pool is "(none)" for nodes of no pool. Sums beyond 2,000 are added up under "(other)". The sum over places is the capacity.`,
		LabelPool, LabelModel, LabelTenant, LabelNamespace, LabelPlace)
	AutoscalerCapacityGPUSeconds = emit(Autoscaler, Counter, Seconds, "gpuscale_autoscaler_capacity_gpu_seconds_total",
		`GPU time of all existing GPUs: 1 is one GPU for one second.`, LabelPool, LabelModel)
	AutoscalerGPUs = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_gpus",
		`GPUs, and parts of GPUs, in each state: "free", "allocated", "fragmented", "stranded", "cordoned", "repartitioning", "unknown", "booting", "unready" or "sick". `+
			`The sum over states is the number of GPUs.`,
		LabelPool, LabelModel, LabelState)
	AutoscalerStrandedGPUs = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_stranded_gpus",
		`GPUs, and parts of GPUs, that are free and that no pending pod can use. cause is "odd", "unpartitioned", "shape" or "scattered" (fragmented: another layout would help), `+
			`"unreachable", "no_cpu" or "no_memory" (stranded: the node prevents it).`,
		LabelPool, LabelCause)
	AutoscalerTenantGPUs = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_tenant_gpus",
		`A tenant's quota and use in GPUs, slices counted as parts of one: "guaranteed", "limit" (absent when there is none), "used", "borrowed" beyond the guarantee, `+
			`"lent" of it to others, "pending".`,
		LabelTenant, LabelKind)
	AutoscalerPoolPrice = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_pool_price_per_hour",
		`Price of one node of a pool for an hour, in the currency of its spec; spot is "true" or "false". Absent where no price is stated.`,
		LabelPool, LabelSpot)
	AutoscalerCost = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_cost_per_hour",
		"What the nodes of a pool that exist cost in an hour, ready or not. Absent where no price is stated.",
		LabelPool)
	AutoscalerPendingGPUs = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_pending_gpus",
		`GPUs that pending pods request and that nothing serves, upcoming nodes included, by shape of one pod ("1", "8", "1g.10gb", "0.5", "(unreadable)" counted as pods) and the `+
			`verdict's reason. Shapes beyond 100 are "(other)".`,
		LabelShape, LabelReason)
	AutoscalerPodPendingSeconds = emit(Autoscaler, Histogram, Seconds, "gpuscale_autoscaler_pod_pending_seconds",
		`Time from the creation of a pod that requests GPUs until it was bound to a node. tenant is "(none)" for none.`,
		LabelTenant)
	AutoscalerNodeReady = emit(Autoscaler, Histogram, Seconds, "gpuscale_autoscaler_node_ready_seconds",
		"Time from the request for a node until it was ready and showed its GPUs.", LabelPool)
	AutoscalerDecisionSeconds = emit(Autoscaler, Histogram, Seconds, "gpuscale_autoscaler_decision_seconds",
		"Time from when a pod was pending until the first action for it was carried out.")
	AutoscalerPoolFailures = emit(Autoscaler, Counter, None, "gpuscale_autoscaler_pool_failures_total",
		`Actions on a pool that failed, by the reason of the action, and requests after which no node appeared ("NothingCame").`,
		LabelPool, LabelReason)
	AutoscalerPoolBackoff = emit(Autoscaler, Gauge, Bool, "gpuscale_autoscaler_pool_backoff",
		"1 while a pool is not scaled up because its provider failed to deliver.", LabelPool)
	AutoscalerFrozen = emit(Autoscaler, Gauge, Bool, "gpuscale_autoscaler_frozen",
		"1 while a pool, or all of them, is frozen by its owner.", LabelPool)
	AutoscalerInterruptions = emit(Autoscaler, Counter, None, "gpuscale_autoscaler_interruptions_total",
		"Nodes of a pool for which the provider announced an interruption.", LabelPool)
	AutoscalerHPAReplicas = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_hpa_replicas",
		`Replicas of an HPA whose pods request GPUs: "min", "max", "current", "desired".`,
		LabelNamespace, LabelHPA, LabelKind)
	AutoscalerHPALimited = emit(Autoscaler, Gauge, Bool, "gpuscale_autoscaler_hpa_limited",
		"1 for each reason of the HPA's conditions for which an HPA whose pods request GPUs is not able to scale, not active or limited. Absent otherwise.",
		LabelNamespace, LabelHPA, LabelReason)
	AutoscalerForecastGPUs = emit(Autoscaler, Gauge, None, "gpuscale_autoscaler_forecast_gpus",
		`GPUs that a workload ("namespace/name") is forecast to need: "low", "expected", "high". Absent while there is no forecast.`,
		LabelWorkload, LabelKind)
	AutoscalerForecastError = emit(Autoscaler, Gauge, Ratio, "gpuscale_autoscaler_forecast_error_ratio",
		"Mean of the errors of the workload's forecast in a back-test over its own past, each as a share of the actual value. Absent while there is no forecast.",
		LabelWorkload)
)

// NotApplicable is the value of a label that does not apply. Other is the value for
// what exceeds a bound. Neither can be a name in Kubernetes.
const (
	NotApplicable = "(none)"
	Other         = "(other)"
)

// PlaceWords are the values of "place", allocated ones first.
func PlaceWords() []string {
	return []string{"busy", "slack", "idle", "unmeasured", "free", "fragmented", "stranded", "cordoned", "repartitioning", "booting", "unready", "sick", "unknown"}
}
