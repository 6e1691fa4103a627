package metric

// Series of endpoint pickers: that of the Gateway API Inference Extension and,
// under new names beside the old, llm-d's. A picker routes to a pool of servers
// and is scraped even while the pool is empty.
var (
	EPPQueue = Read{
		Name: "llm_d_epp_flow_control_queue_size", Type: Gauge, Unit: None, Server: ServerEPP, Labels: flowLabels(),
		Help: "Requests queued until the pool has capacity. Absent until the first one.",
	}
	EPPQueueOld = Read{
		Name: "inference_extension_flow_control_queue_size", Type: Gauge, Unit: None, Server: ServerEPP, Labels: flowLabels(),
		Help: "The name of llm_d_epp_flow_control_queue_size in GAIE, and its alias in llm-d.",
	}
	EPPRunning = Read{
		Name: "llm_d_epp_request_running", Type: Gauge, Unit: None, Server: ServerEPP, Labels: eppModelLabels(),
		Help: "Requests forwarded to a server and not completed.",
	}
	EPPRunningOld = Read{
		Name: "inference_objective_running_requests", Type: Gauge, Unit: None, Server: ServerEPP, Labels: eppModelLabels(),
		Help: "The name of llm_d_epp_request_running in GAIE, and its alias in llm-d.",
	}
	EPPRunningOldest = Read{
		Name: "inference_model_running_requests", Type: Gauge, Unit: None, Server: ServerEPP, Labels: eppModelLabels(),
		Help: "The name of inference_objective_running_requests before GAIE 1.0.",
	}
	EPPCacheUsage = Read{
		Name: "llm_d_epp_average_kv_cache_utilization", Type: Gauge, Unit: None, Server: ServerEPP, Labels: []string{LabelName},
		Help: "Mean share of the KV caches in use over the pool's servers, 0 to 1.",
	}
	EPPCacheUsageOld = Read{
		Name: "inference_pool_average_kv_cache_utilization", Type: Gauge, Unit: None, Server: ServerEPP, Labels: []string{LabelName},
		Help: "The name of llm_d_epp_average_kv_cache_utilization in GAIE, and its alias in llm-d.",
	}
	EPPQueueTime = Read{
		Name: "llm_d_epp_flow_control_request_queue_duration_seconds", Type: Histogram, Unit: Seconds, Server: ServerEPP, Labels: []string{LabelInferencePool},
		Help: "Time a request was queued.",
	}
	EPPQueueTimeOld = Read{
		Name: "inference_extension_flow_control_request_queue_duration_seconds", Type: Histogram, Unit: Seconds, Server: ServerEPP, Labels: []string{LabelInferencePool},
		Help: "The name of llm_d_epp_flow_control_request_queue_duration_seconds in GAIE, and its alias in llm-d.",
	}
	EPPReady = Read{
		Name: "llm_d_epp_ready_endpoints", Type: Gauge, Unit: None, Server: ServerEPP, Labels: []string{LabelName},
		Help: "Servers of the pool that are ready. Present as soon as the picker knows its pool, so it shows that the picker is scraped.",
	}
	EPPReadyOld = Read{
		Name: "inference_pool_ready_pods", Type: Gauge, Unit: None, Server: ServerEPP, Labels: []string{LabelName},
		Help: "The name of llm_d_epp_ready_endpoints in GAIE, and its alias in llm-d.",
	}
)

func flowLabels() []string {
	return []string{LabelInferencePool, LabelFairnessID, LabelPriority, LabelModelName, LabelTargetModel}
}

func eppModelLabels() []string {
	return []string{LabelModelName, LabelTargetModel, LabelFairnessID, LabelPriority}
}

func eppReads() []Read {
	return []Read{
		EPPQueue, EPPQueueOld, EPPRunning, EPPRunningOld, EPPRunningOldest, EPPCacheUsage, EPPCacheUsageOld,
		EPPQueueTime, EPPQueueTimeOld, EPPReady, EPPReadyOld,
	}
}
