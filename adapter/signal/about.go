package signal

// About documents a built-in signal. docs/signals.md is generated from it and
// from the rule.
type About struct {
	Signal  string
	Meaning string
	Unit    string
	Use     string // when to scale on it
	Targets []Advice
	Limits  []string // what it does not show
}

// Advice is a recommended target and its source.
type Advice struct{ Value, From string }

// Abouts returns one About for each built-in rule, in the rules' order.
func Abouts() []About {
	return []About{
		{
			Signal: "gpu_busy", Unit: "ratio, 0 to 1",
			Meaning: "Share of time in which the pod's GPU or MIG device computed.",
			Use:     "Work without a queue of its own: embedding, vision, batch inference, training replicas.",
			Targets: []Advice{{"`600m` per pod", "for even load; leave more headroom where it comes in bursts"}},
			Limits: []string{
				"Busy is not full: one small kernel in a loop keeps it near 1. For servers that batch it hardly changes after the first request.",
				"Pods that share a GPU by time-slicing or MPS each get the whole GPU's number.",
			},
		}, {
			Signal: "gpu_share", Unit: "GPUs, as a ratio of one",
			Meaning: "GPUs' worth of computing the pod does: busy, times the MIG device's part of the GPU, summed over the pod's devices.",
			Use:     "A workload whose pods have MIG devices of different sizes.",
			Limits:  []string{"From gpuscale-exporter only; dcgm-exporter does not export the size of a MIG device."},
		}, {
			Signal: "gpu_memory_used_ratio", Unit: "ratio, 0 to 1",
			Meaning: "Share of memory in use on the pod's GPU or MIG device.",
			Use:     "Servers that load models or adapters on demand.",
			Limits: []string{
				"Not for vLLM, SGLang, TGI or TensorRT-LLM: they allocate their memory when they start and never free it, so it scales up and never down (so GKE's documentation).",
				"From gpuscale-exporter only: dcgm-exporter exports no total to divide by.",
			},
		}, {
			Signal: "queue_depth", Unit: "requests",
			Meaning: "Requests in a queue, before their prompt is processed.",
			Use:     "First choice for throughput and cost (GKE's recommendation). Combine it with `requests_running`, or the replicas it adds are removed as soon as the queue is empty.",
			Targets: []Advice{
				{"`AverageValue` 1", "llm-d's guide for its endpoint picker, with requests running beside it"},
				{"`AverageValue` 5", "Dynamo's HPA examples for the queue of its workers; 5 is also the saturation limit of llm-d's workload variant autoscaler"},
				{"`Value` 10", "Dynamo's HPA examples for its frontend's queue"},
				{"the requests a replica completes in the time a request may wait", "GKE and EKS: from a load test of your own; vLLM's production stack scales on the same series through KEDA"},
			},
			Limits: []string{
				"0 as soon as there is free capacity: it shows how much is missing, never how much is used.",
				"Dynamo's frontend counts requests until their first token, so it includes those whose prompt is being processed.",
				"The other queues of a disaggregated SGLang deployment are not included.",
				"`inference_pool_average_queue_size` is not read: it is a mean over pods, and gives no sum.",
				"Triton counts pending requests in its models, not in ensembles.",
			},
		}, {
			Signal: "requests_running", Unit: "requests",
			Meaning: "Requests being processed.",
			Use:     "Latency: keep batches small (GKE's recommendation), or keep the replicas that `queue_depth` added.",
			Targets: []Advice{
				{"`AverageValue` 16", "llm-d's guide for its endpoint picker"},
				{"`AverageValue` 2", "KServe's example on vLLM; Ray Serve's own autoscaler begins with 2 ongoing requests"},
				{"three quarters of the requests one replica runs at once with good latency", "[hpa.md](hpa.md)"},
			},
			Limits: []string{
				"A full server runs the same number however long its queue: alone it does not distinguish full from overloaded.",
				"A gateway (Dynamo, endpoint pickers) counts a request from forwarding to the last token, so it includes the servers' queues.",
				"Triton exports it with the TensorRT-LLM backend only.",
			},
		}, {
			Signal: "kv_cache_usage", Unit: "ratio, 0 to 1",
			Meaning: "Share of the KV cache in use; the mean over a workload's servers.",
			Use:     "Long contexts, where memory runs out before a queue forms. Beside `queue_depth`.",
			Targets: []Advice{
				{"`800m`", "the saturation limit of llm-d's workload variant autoscaler"},
			},
			Limits: []string{"In some servers a prefix cache keeps it high after the requests have ended.", "TGI and Triton without TensorRT-LLM do not export it."},
		}, {
			Signal: "ttft_p95", Unit: "seconds",
			Meaning: "95th percentile of the time to the first token over two minutes, of the worst server.",
			Use:     "A guardrail beside a queue: the latency that users see.",
			Targets: []Advice{
				{"`500m`", "Dynamo's HPA examples"},
				{"your service level, with headroom", "EKS: latency beside the queue, thresholds from a load test"},
			},
			Limits: []string{
				"It follows load with a delay and not in proportion: twice the servers do not halve latency. Let another signal scale down.",
				"A percentile is as precise as the server's buckets.",
				"Triton's is the time to the first response of a decoupled model, and off by default.",
			},
		}, {
			Signal: "queue_time_p95", Unit: "seconds",
			Meaning: "95th percentile of the time in a queue over two minutes, of the worst server.",
			Use:     "Where a time is easier to agree on than a queue length: it does not depend on how fast a replica is.",
			Targets: []Advice{{"a tenth to a quarter of the promised time to the first token", "our rule of thumb, not a server project's"}},
			Limits:  []string{"A request counts when it leaves the queue: a queue that does not move shows here last."},
		}, {
			Signal: "queue_time_mean", Unit: "seconds",
			Meaning: "Mean time in a queue over two minutes, of the worst server.",
			Use:     "Triton, which counts time and requests only. A mean is no percentile, so it is not part of `queue_time_p95`.",
			Limits:  []string{"A mean hides the few long waits.", "Triton divides by successful requests; where many fail it is too high."},
		}, {
			Signal: "gpu_tensor_active", Unit: "ratio, 0 to 1",
			Meaning: "Share of cycles in which the tensor pipe was active on the pod's GPU or MIG device.",
			Use:     "Prompt-heavy or training work, where it comes closest to how much of the GPU is used.",
			Limits:  []string{"Decoding is bound by memory: it stays low on a full server.", "Needs DCGM's profiling counters (Volta or newer, not while another profiler runs)."},
		}, {
			Signal: "gpu_dram_active", Unit: "ratio, 0 to 1",
			Meaning: "Share of cycles in which the memory interface moved data on the pod's GPU or MIG device.",
			Use:     "Decode-heavy work, which is limited by reading weights and caches.",
			Limits:  []string{"Near its maximum already with small batches, since every step reads all weights.", "Needs DCGM's profiling counters."},
		},
	}
}
