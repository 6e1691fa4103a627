package metric

// Series of the Triton inference server and of its TensorRT-LLM backend, which
// batches in flight and so has a queue of its own behind Triton's.
var (
	TritonPending = read(ServerTriton, Gauge, None, "nv_inference_pending_request_count",
		"Requests that wait for a backend.", tritonLabels()...)
	TritonQueueDuration = read(ServerTriton, Counter, None, "nv_inference_queue_duration_us",
		"Time requests have waited, all together, in microseconds.", tritonLabels()...)
	TritonSuccess = read(ServerTriton, Counter, None, "nv_inference_request_success",
		"Requests that succeeded.", tritonLabels()...)
	TritonFirstResponse = read(ServerTriton, Histogram, None, "nv_inference_first_response_histogram_ms",
		"Time to the first response of a decoupled model, in milliseconds. Off by default.", tritonLabels()...)
	TritonLLMRequests = read(ServerTriton, Gauge, None, "nv_trt_llm_request_metrics",
		`Requests in the TensorRT-LLM backend: request_type "waiting" is its queue, "scheduled" is worked on.`, append(tritonLabels(), LabelRequestType)...)
	TritonLLMCache = read(ServerTriton, Gauge, None, "nv_trt_llm_kv_cache_block_metrics",
		`The TensorRT-LLM backend's KV cache: kv_cache_block_type "fraction" is the share in use, 0 to 1.`, append(tritonLabels(), LabelBlockType)...)
)

// tritonLabels include the label of --model-namespacing, "namespace" on the page.
func tritonLabels() []string { return []string{LabelModel, LabelVersion, Exported + LabelNamespace} }
