package metric

// Series of vLLM. Names under Ray have the prefix "ray_" and an underscore in
// place of the colon.
var (
	VLLMWaiting = read(ServerVLLM, Gauge, None, "vllm:num_requests_waiting",
		"Requests that wait to be worked on: the queue.", vllmLabels()...)
	VLLMRunning = read(ServerVLLM, Gauge, None, "vllm:num_requests_running",
		"Requests being worked on.", vllmLabels()...)
	VLLMCacheUsage = read(ServerVLLM, Gauge, Ratio, "vllm:kv_cache_usage_perc",
		"Share of the KV cache in use, 0 to 1 despite its name.", vllmLabels()...)
	VLLMCacheUsageOld = read(ServerVLLM, Gauge, Ratio, "vllm:gpu_cache_usage_perc",
		"The name of vllm:kv_cache_usage_perc before September 2025.", vllmLabels()...)
	VLLMFirstToken = read(ServerVLLM, Histogram, Seconds, "vllm:time_to_first_token_seconds",
		"Time from the request to its first token.", vllmLabels()...)
	VLLMQueueTime = read(ServerVLLM, Histogram, Seconds, "vllm:request_queue_time_seconds",
		"Time a request waited before it was worked on.", vllmLabels()...)
	VLLMLatency = read(ServerVLLM, Histogram, Seconds, "vllm:e2e_request_latency_seconds",
		"Time from the request to its last token.", vllmLabels()...)
	VLLMPreemptions = read(ServerVLLM, Counter, None, "vllm:num_preemptions_total",
		"Requests preempted for lack of KV cache.", vllmLabels()...)
	VLLMPromptTokens = read(ServerVLLM, Counter, None, "vllm:prompt_tokens_total",
		"Tokens read.", vllmLabels()...)
	VLLMGenerationTokens = read(ServerVLLM, Counter, None, "vllm:generation_tokens_total",
		"Tokens written.", vllmLabels()...)
)

func vllmLabels() []string { return []string{LabelModelName, LabelEngine} }
