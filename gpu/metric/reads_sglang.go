package metric

// Series of SGLang with --enable-metrics. Every tensor-parallel rank of a
// data-parallel rank may repeat its numbers, so tp_rank is no key. Names under Ray
// are spelled as vLLM's are.
var (
	SGLangQueued = Read{
		Name: "sglang:num_queue_reqs", Type: Gauge, Unit: None, Server: ServerSGLang, Labels: sglangLabels(),
		Help: "Requests in the waiting queue.",
	}
	SGLangRunning = Read{
		Name: "sglang:num_running_reqs", Type: Gauge, Unit: None, Server: ServerSGLang, Labels: sglangLabels(),
		Help: "Requests being worked on.",
	}
	SGLangCacheUsage = Read{
		Name: "sglang:token_usage", Type: Gauge, Unit: Ratio, Server: ServerSGLang, Labels: sglangLabels(),
		Help: "Share of the KV cache's tokens in use, 0 to 1; of several pools the fullest.",
	}
	SGLangFirstToken = Read{
		Name: "sglang:time_to_first_token_seconds", Type: Histogram, Unit: Seconds, Server: ServerSGLang, Labels: sglangLabels(),
		Help: "Time from the request to its first token.",
	}
	SGLangGenerationTokens = Read{
		Name: "sglang:generation_tokens_total", Type: Counter, Unit: None, Server: ServerSGLang, Labels: sglangLabels(),
		Help: "Tokens written.",
	}
	SGLangQueueTime = Read{
		Name: "sglang:queue_time_seconds", Type: Histogram, Unit: Seconds, Server: ServerSGLang, Labels: sglangLabels(),
		Help: "Time a request waited before it was worked on.",
	}
)

func sglangLabels() []string { return []string{LabelModelName, LabelEngineType, LabelDPRank} }

func sglangReads() []Read {
	return []Read{SGLangQueued, SGLangRunning, SGLangCacheUsage, SGLangFirstToken, SGLangGenerationTokens, SGLangQueueTime}
}
