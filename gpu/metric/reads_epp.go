package metric

// Series of endpoint pickers: of the Gateway API Inference Extension, and of llm-d, which
// has new names beside the old ones. A picker routes to a pool of servers
// and is scraped even while the pool is empty.
var (
	EPPQueue = read(ServerEPP, Gauge, None, "llm_d_epp_flow_control_queue_size",
		"Requests queued until the pool has capacity. Absent until the first one.", flowLabels()...)
	EPPQueueOld = read(ServerEPP, Gauge, None, "inference_extension_flow_control_queue_size",
		"The name of llm_d_epp_flow_control_queue_size in GAIE, and its alias in llm-d.", flowLabels()...)
	EPPRunning = read(ServerEPP, Gauge, None, "llm_d_epp_request_running",
		"Requests forwarded to a server and not completed.", eppModelLabels()...)
	EPPRunningOld = read(ServerEPP, Gauge, None, "inference_objective_running_requests",
		"The name of llm_d_epp_request_running in GAIE, and its alias in llm-d.", eppModelLabels()...)
	EPPRunningOldest = read(ServerEPP, Gauge, None, "inference_model_running_requests",
		"The name of inference_objective_running_requests before GAIE 1.0.", eppModelLabels()...)
	EPPCacheUsage = read(ServerEPP, Gauge, None, "llm_d_epp_average_kv_cache_utilization",
		"Mean share of the KV caches in use over the pool's servers, 0 to 1.", LabelName)
	EPPCacheUsageOld = read(ServerEPP, Gauge, None, "inference_pool_average_kv_cache_utilization",
		"The name of llm_d_epp_average_kv_cache_utilization in GAIE, and its alias in llm-d.", LabelName)
	EPPQueueTime = read(ServerEPP, Histogram, Seconds, "llm_d_epp_flow_control_request_queue_duration_seconds",
		"Time a request was queued.", LabelInferencePool)
	EPPQueueTimeOld = read(ServerEPP, Histogram, Seconds, "inference_extension_flow_control_request_queue_duration_seconds",
		"The name of llm_d_epp_flow_control_request_queue_duration_seconds in GAIE, and its alias in llm-d.", LabelInferencePool)
	EPPReady = read(ServerEPP, Gauge, None, "llm_d_epp_ready_endpoints",
		"Servers of the pool that are ready. Present as soon as the picker knows its pool, so it shows that the picker is scraped.", LabelName)
	EPPReadyOld = read(ServerEPP, Gauge, None, "inference_pool_ready_pods",
		"The name of llm_d_epp_ready_endpoints in GAIE, and its alias in llm-d.", LabelName)
)

func flowLabels() []string {
	return []string{LabelInferencePool, LabelFairnessID, LabelPriority, LabelModelName, LabelTargetModel}
}

func eppModelLabels() []string {
	return []string{LabelModelName, LabelTargetModel, LabelFairnessID, LabelPriority}
}
