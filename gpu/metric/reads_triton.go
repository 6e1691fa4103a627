package metric

// Series of the Triton inference server and of its TensorRT-LLM backend, which
// batches in flight and so has a queue of its own behind Triton's.
var (
	TritonPending = Read{
		Name: "nv_inference_pending_request_count", Type: Gauge, Unit: None, Server: ServerTriton, Labels: tritonLabels(),
		Help: "Requests that wait for a backend.",
	}
	TritonQueueDuration = Read{
		Name: "nv_inference_queue_duration_us", Type: Counter, Unit: None, Server: ServerTriton, Labels: tritonLabels(),
		Help: "Time requests have waited, all together, in microseconds.",
	}
	TritonSuccess = Read{
		Name: "nv_inference_request_success", Type: Counter, Unit: None, Server: ServerTriton, Labels: tritonLabels(),
		Help: "Requests that succeeded.",
	}
	TritonFirstResponse = Read{
		Name: "nv_inference_first_response_histogram_ms", Type: Histogram, Unit: None, Server: ServerTriton, Labels: tritonLabels(),
		Help: "Time to the first response of a decoupled model, in milliseconds. Off by default.",
	}
	TritonLLMRequests = Read{
		Name: "nv_trt_llm_request_metrics", Type: Gauge, Unit: None, Server: ServerTriton,
		Labels: append(tritonLabels(), LabelRequestType),
		Help:   `Requests in the TensorRT-LLM backend: request_type "waiting" is its queue, "scheduled" is worked on.`,
	}
	TritonLLMCache = Read{
		Name: "nv_trt_llm_kv_cache_block_metrics", Type: Gauge, Unit: None, Server: ServerTriton,
		Labels: append(tritonLabels(), LabelBlockType),
		Help:   `The TensorRT-LLM backend's KV cache: kv_cache_block_type "fraction" is the share in use, 0 to 1.`,
	}
)

func tritonLabels() []string { return []string{LabelModel, LabelVersion} }

func tritonReads() []Read {
	return []Read{TritonPending, TritonQueueDuration, TritonSuccess, TritonFirstResponse, TritonLLMRequests, TritonLLMCache}
}
