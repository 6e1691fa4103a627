package metric

// Read is a series that somebody else emits and the adapter reads.
type Read struct {
	Name   string
	Type   Type
	Unit   Unit
	Server string // "vllm"
	Help   string
	Labels []string // that tell series of one pod apart, the scrape's own left out
}

// LabelModelName is how vLLM calls the model served; LabelEngine its
// data-parallel rank.
const (
	LabelModelName = "model_name"
	LabelEngine    = "engine"
)

// What vLLM says. Names under Ray have the prefix "ray_" and an underscore in
// place of the colon.
var (
	VLLMWaiting = Read{
		Name: "vllm:num_requests_waiting", Type: Gauge, Unit: None, Server: "vllm", Labels: vllmLabels(),
		Help: "Requests that wait to be worked on: the queue.",
	}
	VLLMRunning = Read{
		Name: "vllm:num_requests_running", Type: Gauge, Unit: None, Server: "vllm", Labels: vllmLabels(),
		Help: "Requests being worked on.",
	}
	VLLMCacheUsage = Read{
		Name: "vllm:kv_cache_usage_perc", Type: Gauge, Unit: Ratio, Server: "vllm", Labels: vllmLabels(),
		Help: "Share of the KV cache in use, 0 to 1 despite its name.",
	}
	VLLMCacheUsageOld = Read{
		Name: "vllm:gpu_cache_usage_perc", Type: Gauge, Unit: Ratio, Server: "vllm", Labels: vllmLabels(),
		Help: "The name of vllm:kv_cache_usage_perc before September 2025.",
	}
	VLLMFirstToken = Read{
		Name: "vllm:time_to_first_token_seconds", Type: Histogram, Unit: Seconds, Server: "vllm", Labels: vllmLabels(),
		Help: "Time from the request to its first token.",
	}
	VLLMQueueTime = Read{
		Name: "vllm:request_queue_time_seconds", Type: Histogram, Unit: Seconds, Server: "vllm", Labels: vllmLabels(),
		Help: "Time a request waited before it was worked on.",
	}
	VLLMLatency = Read{
		Name: "vllm:e2e_request_latency_seconds", Type: Histogram, Unit: Seconds, Server: "vllm", Labels: vllmLabels(),
		Help: "Time from the request to its last token.",
	}
	VLLMPreemptions = Read{
		Name: "vllm:num_preemptions_total", Type: Counter, Unit: None, Server: "vllm", Labels: vllmLabels(),
		Help: "Requests put back for want of KV cache.",
	}
	VLLMPromptTokens = Read{
		Name: "vllm:prompt_tokens_total", Type: Counter, Unit: None, Server: "vllm", Labels: vllmLabels(),
		Help: "Tokens read.",
	}
	VLLMGenerationTokens = Read{
		Name: "vllm:generation_tokens_total", Type: Counter, Unit: None, Server: "vllm", Labels: vllmLabels(),
		Help: "Tokens written.",
	}
)

func vllmLabels() []string { return []string{LabelModelName, LabelEngine} }

// Reads returns every series of others that is read, sorted by name.
func Reads() []Read {
	return sorted([]Read{
		VLLMWaiting, VLLMRunning, VLLMCacheUsage, VLLMCacheUsageOld, VLLMFirstToken, VLLMQueueTime, VLLMLatency,
		VLLMPreemptions, VLLMPromptTokens, VLLMGenerationTokens,
	}, func(r Read) string { return r.Name })
}
