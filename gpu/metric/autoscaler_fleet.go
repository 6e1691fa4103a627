package metric

// What the autoscaler says about the fleet it looks after. Only the replica that
// decides exports these, so that sums over replicas are right.
//
// No label of theirs is ever empty: Prometheus takes an empty label for none, and
// puts the scrape target's own in its place. Nobody stands for what applies to none.
var (
	AutoscalerGPUSeconds = Desc{
		Name: "gpuscale_autoscaler_gpu_seconds_total", Type: Counter, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help: `Where GPU time went: 1 is one card for one second. place is "busy", "slack" (held and computing now and then), "idle" (held and not computing), ` +
			`"unmeasured" (held), "free", "fragmented", "stranded", "cordoned", "cutting", "booting", "unready", "sick" or "unknown". tenant and namespace are the holder's, ` +
			`"(none)" for none; pool is "(none)" for nodes of no pool of ours. What exceeds 2,000 sums is added up under "(other)". The sum over places is the capacity.`,
		Labels: []string{LabelPool, LabelModel, LabelTenant, LabelNamespace, LabelPlace},
	}
	AutoscalerCapacityGPUSeconds = Desc{
		Name: "gpuscale_autoscaler_capacity_gpu_seconds_total", Type: Counter, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help:   `GPU time that there was: 1 is one card for one second.`,
		Labels: []string{LabelPool, LabelModel},
	}
	AutoscalerGPUs = Desc{
		Name: "gpuscale_autoscaler_gpus", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: `Cards, and parts of cards, in each state: "free", "held", "fragmented", "stranded", "cordoned", "cutting", "unknown", "booting", "unready" or "sick". ` +
			`The sum over states is the number of cards.`,
		Labels: []string{LabelPool, LabelModel, LabelState},
	}
	AutoscalerStrandedGPUs = Desc{
		Name: "gpuscale_autoscaler_stranded_gpus", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: `Cards, and parts of cards, that nobody holds and that serve nobody as things are. cause is "odd", "uncut", "shape" or "scattered" (fragmented: another layout would help), ` +
			`"unreachable", "no_cpu" or "no_memory" (stranded: the node is in the way).`,
		Labels: []string{LabelPool, LabelCause},
	}
	AutoscalerTenantGPUs = Desc{
		Name: "gpuscale_autoscaler_tenant_gpus", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: `A tenant's quota and use in cards, slices counted as parts of one: "guaranteed", "limit" (absent when there is none), "used", "borrowed" beyond the guarantee, ` +
			`"lent" of it to others, "waiting".`,
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
	AutoscalerWaitingGPUs = Desc{
		Name: "gpuscale_autoscaler_waiting_gpus", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help: `Cards that pending pods want and that nothing serves or is on its way for, by shape of one pod ("1", "8", "1g.10gb", "0.5", "(unreadable)" counted as pods) and the ` +
			`verdict's reason. Beyond 100 shapes the rest is "(other)".`,
		Labels: []string{LabelShape, LabelReason},
	}
	AutoscalerPodWait = Desc{
		Name: "gpuscale_autoscaler_pod_wait_seconds", Type: Histogram, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help:   `Time from the creation of a pod that wants GPUs until it was bound to a node. tenant is "(none)" for none.`,
		Labels: []string{LabelTenant},
	}
	AutoscalerNodeReady = Desc{
		Name: "gpuscale_autoscaler_node_ready_seconds", Type: Histogram, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help:   "Time from the request for a node until it was ready and showed its cards.",
		Labels: []string{LabelPool},
	}
	AutoscalerDecisionSeconds = Desc{
		Name: "gpuscale_autoscaler_decision_seconds", Type: Histogram, Unit: Seconds, Owner: Autoscaler, Stability: Alpha,
		Help: "Time from when a pod was pending until the first action for it was carried out.",
	}
	AutoscalerPoolFailures = Desc{
		Name: "gpuscale_autoscaler_pool_failures_total", Type: Counter, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Actions on a pool that failed, by the reason of the action, and requests after which no node came ("NothingCame").`,
		Labels: []string{LabelPool, LabelReason},
	}
	AutoscalerPoolBackoff = Desc{
		Name: "gpuscale_autoscaler_pool_backoff", Type: Gauge, Unit: Bool, Owner: Autoscaler, Stability: Alpha,
		Help:   "1 while a pool is left alone since its provider failed to deliver.",
		Labels: []string{LabelPool},
	}
	AutoscalerFrozen = Desc{
		Name: "gpuscale_autoscaler_frozen", Type: Gauge, Unit: Bool, Owner: Autoscaler, Stability: Alpha,
		Help:   "1 while a pool, or all of them, is frozen by its owner.",
		Labels: []string{LabelPool},
	}
	AutoscalerInterruptions = Desc{
		Name: "gpuscale_autoscaler_interruptions_total", Type: Counter, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   "Nodes of a pool that the provider gave notice to take away.",
		Labels: []string{LabelPool},
	}
	AutoscalerHPAReplicas = Desc{
		Name: "gpuscale_autoscaler_hpa_replicas", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Replicas of an HPA whose pods want GPUs: "min", "max", "current", "desired".`,
		Labels: []string{LabelNamespace, LabelHPA, LabelKind},
	}
	AutoscalerHPALimited = Desc{
		Name: "gpuscale_autoscaler_hpa_limited", Type: Gauge, Unit: Bool, Owner: Autoscaler, Stability: Alpha,
		Help:   "1 for each reason, in the HPA's own word, for which an HPA whose pods want GPUs is not able to scale, not active or limited. Absent otherwise.",
		Labels: []string{LabelNamespace, LabelHPA, LabelReason},
	}
	AutoscalerForecastGPUs = Desc{
		Name: "gpuscale_autoscaler_forecast_gpus", Type: Gauge, Unit: None, Owner: Autoscaler, Stability: Alpha,
		Help:   `Cards that a workload ("namespace/name") is expected to need: "low", "expected", "high". Absent while nobody can say.`,
		Labels: []string{LabelWorkload, LabelKind},
	}
	AutoscalerForecastError = Desc{
		Name: "gpuscale_autoscaler_forecast_error_ratio", Type: Gauge, Unit: Ratio, Owner: Autoscaler, Stability: Alpha,
		Help:   "Mean error of the workload's forecast when played over its own past, as a share of the mean. Absent while nobody can say.",
		Labels: []string{LabelWorkload},
	}
)

// Nobody is the value of a label that applies to nobody, and Other that of what is
// beyond a bound. Neither can be a name in Kubernetes.
const (
	Nobody = "(none)"
	Other  = "(other)"
)

// PlaceWords are the values of "place", held ones first.
func PlaceWords() []string {
	return []string{"busy", "slack", "idle", "unmeasured", "free", "fragmented", "stranded", "cordoned", "cutting", "booting", "unready", "sick", "unknown"}
}

func autoscalerFleet() []Desc {
	return []Desc{
		AutoscalerGPUSeconds, AutoscalerCapacityGPUSeconds, AutoscalerGPUs, AutoscalerStrandedGPUs, AutoscalerTenantGPUs,
		AutoscalerPoolPrice, AutoscalerCost, AutoscalerWaitingGPUs, AutoscalerPodWait, AutoscalerNodeReady, AutoscalerDecisionSeconds,
		AutoscalerPoolFailures, AutoscalerPoolBackoff, AutoscalerFrozen, AutoscalerInterruptions, AutoscalerHPAReplicas,
		AutoscalerHPALimited, AutoscalerForecastGPUs, AutoscalerForecastError,
	}
}
