package metric

// Series of vLLM. Names under Ray have the prefix "ray_" and an underscore in
// place of the colon.
var (
	VLLMWaiting = Read{
		Name: "vllm:num_requests_waiting", Type: Gauge, Unit: None, Server: ServerVLLM, Labels: vllmLabels(),
		Help: "Requests that wait to be worked on: the queue.",
	}
	VLLMRunning = Read{
		Name: "vllm:num_requests_running", Type: Gauge, Unit: None, Server: ServerVLLM, Labels: vllmLabels(),
		Help: "Requests being worked on.",
	}
	VLLMCacheUsage = Read{
		Name: "vllm:kv_cache_usage_perc", Type: Gauge, Unit: Ratio, Server: ServerVLLM, Labels: vllmLabels(),
		Help: "Share of the KV cache in use, 0 to 1 despite its name.",
	}
	VLLMCacheUsageOld = Read{
		Name: "vllm:gpu_cache_usage_perc", Type: Gauge, Unit: Ratio, Server: ServerVLLM, Labels: vllmLabels(),
		Help: "The name of vllm:kv_cache_usage_perc before September 2025.",
	}
	VLLMFirstToken = Read{
		Name: "vllm:time_to_first_token_seconds", Type: Histogram, Unit: Seconds, Server: ServerVLLM, Labels: vllmLabels(),
		Help: "Time from the request to its first token.",
	}
	VLLMQueueTime = Read{
		Name: "vllm:request_queue_time_seconds", Type: Histogram, Unit: Seconds, Server: ServerVLLM, Labels: vllmLabels(),
		Help: "Time a request waited before it was worked on.",
	}
	VLLMLatency = Read{
		Name: "vllm:e2e_request_latency_seconds", Type: Histogram, Unit: Seconds, Server: ServerVLLM, Labels: vllmLabels(),
		Help: "Time from the request to its last token.",
	}
	VLLMPreemptions = Read{
		Name: "vllm:num_preemptions_total", Type: Counter, Unit: None, Server: ServerVLLM, Labels: vllmLabels(),
		Help: "Requests preempted for lack of KV cache.",
	}
	VLLMPromptTokens = Read{
		Name: "vllm:prompt_tokens_total", Type: Counter, Unit: None, Server: ServerVLLM, Labels: vllmLabels(),
		Help: "Tokens read.",
	}
	VLLMGenerationTokens = Read{
		Name: "vllm:generation_tokens_total", Type: Counter, Unit: None, Server: ServerVLLM, Labels: vllmLabels(),
		Help: "Tokens written.",
	}
)

func vllmLabels() []string { return []string{LabelModelName, LabelEngine} }

func vllmReads() []Read {
	return []Read{
		VLLMWaiting, VLLMRunning, VLLMCacheUsage, VLLMCacheUsageOld, VLLMFirstToken, VLLMQueueTime, VLLMLatency,
		VLLMPreemptions, VLLMPromptTokens, VLLMGenerationTokens,
	}
}
