package metric

// Series of SGLang with --enable-metrics. Every tensor-parallel rank of a
// data-parallel rank may repeat its numbers, so tp_rank does not distinguish series.
// Names under Ray are spelled as vLLM's are; to Prometheus 2 the colon is an underscore.
var (
	SGLangQueued = read(ServerSGLang, Gauge, None, "sglang:num_queue_reqs",
		"Requests in the waiting queue.", sglangLabels()...)
	SGLangPrealloc = read(ServerSGLang, Gauge, None, "sglang:num_decode_prealloc_queue_reqs",
		"Requests that wait for KV cache of a decode server; 0 where prefill is not apart. One that has it waits for its prefill.", sglangLabels()...)
	SGLangRunning = read(ServerSGLang, Gauge, None, "sglang:num_running_reqs",
		"Requests being worked on.", sglangLabels()...)
	SGLangCacheUsage = read(ServerSGLang, Gauge, Ratio, "sglang:token_usage",
		"Share of the KV cache's tokens in use, 0 to 1; of several pools the fullest.", sglangLabels()...)
	SGLangFirstToken = read(ServerSGLang, Histogram, Seconds, "sglang:time_to_first_token_seconds",
		"Time from the request to its first token.", sglangLabels()...)
	SGLangGenerationTokens = read(ServerSGLang, Counter, None, "sglang:generation_tokens_total",
		"Tokens written, of a request when it ends.", sglangLabels()...)
	SGLangRealtimeTokens = read(ServerSGLang, Counter, None, "sglang:realtime_tokens_total",
		`Tokens worked on, as they are: mode "decode" is written.`, append(sglangLabels(), LabelMode)...)
	SGLangQueueTime = read(ServerSGLang, Histogram, Seconds, "sglang:queue_time_seconds",
		"Time a request waited before it was worked on.", sglangLabels()...)
)

func sglangLabels() []string { return []string{LabelModelName, LabelEngineType, LabelDPRank} }
