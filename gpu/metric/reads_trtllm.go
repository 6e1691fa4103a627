package metric

// Series of trtllm-serve at /prometheus/metrics. In early versions, which had no
// prefix, Dynamo added "trtllm:".
var (
	TRTLLMWaiting = read(ServerTRTLLM, Gauge, None, "trtllm_num_requests_waiting",
		"Requests that wait to be worked on: the queue.", trtllmLabels()...)
	TRTLLMRunning = read(ServerTRTLLM, Gauge, None, "trtllm_num_requests_running",
		"Requests being worked on.", trtllmLabels()...)
	TRTLLMCacheUsage = read(ServerTRTLLM, Gauge, Ratio, "trtllm_kv_cache_utilization",
		"Share of the KV cache in use, 0 to 1.", trtllmLabels()...)
	TRTLLMFirstToken = read(ServerTRTLLM, Histogram, Seconds, "trtllm_time_to_first_token_seconds",
		"Time from the request to its first token.", trtllmLabels()...)
	TRTLLMFirstTokenOld = read(ServerTRTLLM, Histogram, Seconds, "trtllm:time_to_first_token_seconds",
		"The name of trtllm_time_to_first_token_seconds in early versions under Dynamo.", trtllmLabels()...)
	TRTLLMQueueTime = read(ServerTRTLLM, Histogram, Seconds, "trtllm_request_queue_time_seconds",
		"Time a request waited before it was worked on.", trtllmLabels()...)
	TRTLLMQueueTimeOld = read(ServerTRTLLM, Histogram, Seconds, "trtllm:request_queue_time_seconds",
		"The name of trtllm_request_queue_time_seconds in early versions under Dynamo.", trtllmLabels()...)
)

func trtllmLabels() []string { return []string{LabelModelName, LabelEngineType} }
