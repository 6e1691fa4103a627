package metric

// Series of trtllm-serve at /prometheus/metrics. In early versions, which had no
// prefix, Dynamo added "trtllm:".
var (
	TRTLLMWaiting = Read{
		Name: "trtllm_num_requests_waiting", Type: Gauge, Unit: None, Server: ServerTRTLLM, Labels: trtllmLabels(),
		Help: "Requests that wait to be worked on: the queue.",
	}
	TRTLLMRunning = Read{
		Name: "trtllm_num_requests_running", Type: Gauge, Unit: None, Server: ServerTRTLLM, Labels: trtllmLabels(),
		Help: "Requests being worked on.",
	}
	TRTLLMCacheUsage = Read{
		Name: "trtllm_kv_cache_utilization", Type: Gauge, Unit: Ratio, Server: ServerTRTLLM, Labels: trtllmLabels(),
		Help: "Share of the KV cache in use, 0 to 1.",
	}
	TRTLLMFirstToken = Read{
		Name: "trtllm_time_to_first_token_seconds", Type: Histogram, Unit: Seconds, Server: ServerTRTLLM, Labels: trtllmLabels(),
		Help: "Time from the request to its first token.",
	}
	TRTLLMFirstTokenOld = Read{
		Name: "trtllm:time_to_first_token_seconds", Type: Histogram, Unit: Seconds, Server: ServerTRTLLM, Labels: trtllmLabels(),
		Help: "The name of trtllm_time_to_first_token_seconds in early versions under Dynamo.",
	}
	TRTLLMQueueTime = Read{
		Name: "trtllm_request_queue_time_seconds", Type: Histogram, Unit: Seconds, Server: ServerTRTLLM, Labels: trtllmLabels(),
		Help: "Time a request waited before it was worked on.",
	}
	TRTLLMQueueTimeOld = Read{
		Name: "trtllm:request_queue_time_seconds", Type: Histogram, Unit: Seconds, Server: ServerTRTLLM, Labels: trtllmLabels(),
		Help: "The name of trtllm_request_queue_time_seconds in early versions under Dynamo.",
	}
)

func trtllmLabels() []string { return []string{LabelModelName, LabelEngineType} }

func trtllmReads() []Read {
	return []Read{
		TRTLLMWaiting, TRTLLMRunning, TRTLLMCacheUsage, TRTLLMFirstToken, TRTLLMFirstTokenOld, TRTLLMQueueTime, TRTLLMQueueTimeOld,
	}
}
