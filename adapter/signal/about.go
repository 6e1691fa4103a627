package signal

// About says what a built-in signal is for. It is what docs/signals.md is made
// of, together with the rule itself.
type About struct {
	Signal  string
	Meaning string
	Unit    string
	Use     string // when to scale on it
	Targets []Advice
	Limits  []string // what it does not say
}

// Advice is a target somebody recommends, and who does.
type Advice struct{ Value, From string }

// Abouts returns one of them for each built-in rule, in the rules' order.
func Abouts() []About {
	return []About{
		{
			Signal: "gpu_busy", Unit: "ratio, 0 to 1",
			Meaning: "Share of time in which what the pod holds computed: a whole card or a MIG instance alike.",
			Use:     "Work without a queue of its own: embedding, vision, batch inference, training replicas.",
			Targets: []Advice{{"`600m` per pod", "where the work is even; leave more room where it comes in bursts"}},
			Limits: []string{
				"Busy is not full: one small kernel in a loop keeps it near 1. For servers that batch it says little after the first request.",
				"Pods that share a card by time-slicing or MPS are each shown the card's own number.",
			},
		}, {
			Signal: "gpu_share", Unit: "cards, as a ratio of one",
			Meaning: "Cards' worth of computing the pod does: busy, times the instance's part of the card, summed over what it holds.",
			Use:     "A workload whose pods hold instances of different sizes.",
			Limits:  []string{"From our exporter only; dcgm-exporter does not say how large an instance is."},
		}, {
			Signal: "gpu_memory_used_ratio", Unit: "ratio, 0 to 1",
			Meaning: "Memory in use on what the pod holds.",
			Use:     "Servers that load models or adapters on demand.",
			Limits: []string{
				"Not for vLLM, SGLang, TGI or TensorRT-LLM: they take their memory when they start and never give it back, so it scales up and never down (GKE's documentation says so as well).",
				"From our exporter only: dcgm-exporter gives no total to divide by.",
			},
		}, {
			Signal: "queue_depth", Unit: "requests",
			Meaning: "Requests that wait for a server, prompts not yet being read.",
			Use:     "First choice for throughput and cost (GKE's recommendation). Together with `requests_running`, or the replicas it calls for go again as soon as the queue is empty.",
			Targets: []Advice{
				{"`AverageValue` 1", "llm-d's guide for its endpoint picker, with requests running beside it"},
				{"`AverageValue` 5", "Dynamo's HPA examples for what waits in workers; 5 is also the saturation limit of llm-d's workload variant autoscaler"},
				{"`Value` 10", "Dynamo's HPA examples for its frontend's queue"},
				{"what a replica works off in the time a request may wait", "GKE and EKS: from a load test of your own; vLLM's production stack scales on the same series through KEDA"},
			},
			Limits: []string{
				"0 as soon as there is room: it says how much is missing and never how much is used.",
				"Dynamo's frontend counts requests until their first token, so those whose prompt is being read as well.",
				"SGLang's further queues of a disaggregated deployment are not in it.",
				"`inference_pool_average_queue_size` is not read: a mean over pods that no sum can be made of.",
				"Triton counts nothing as pending at the level of an ensemble, only in its models.",
			},
		}, {
			Signal: "requests_running", Unit: "requests",
			Meaning: "Requests being worked on.",
			Use:     "Latency: keep batches small (GKE's recommendation), or hold the replicas that `queue_depth` called for.",
			Targets: []Advice{
				{"`AverageValue` 16", "llm-d's guide for its endpoint picker"},
				{"`AverageValue` 2", "KServe's example on vLLM; Ray Serve's own autoscaler begins with 2 ongoing requests"},
				{"three quarters of what one replica runs at once with good latency", "[hpa.md](hpa.md)"},
			},
			Limits: []string{
				"A full server runs as many as it can however long its queue: alone it cannot tell full from overloaded.",
				"A gateway's count (Dynamo, endpoint pickers) goes from passing on to the last token, so it includes what waits in a server.",
				"Triton says it only with the TensorRT-LLM backend.",
			},
		}, {
			Signal: "kv_cache_usage", Unit: "ratio, 0 to 1",
			Meaning: "Share of the KV cache in use; the mean over a workload's servers.",
			Use:     "Long contexts, where memory runs out before anything waits. Beside `queue_depth`.",
			Targets: []Advice{
				{"`800m`", "the saturation limit of llm-d's workload variant autoscaler"},
			},
			Limits: []string{"A prefix cache keeps it high after the requests have gone in some servers.", "TGI and Triton without TensorRT-LLM do not say it."},
		}, {
			Signal: "ttft_p95", Unit: "seconds",
			Meaning: "95th percentile of the time to the first token over two minutes, of the worst server.",
			Use:     "A guardrail beside a queue: what users feel.",
			Targets: []Advice{
				{"`500m`", "Dynamo's HPA examples"},
				{"your service level, with room", "EKS: latency beside the queue, thresholds from a load test"},
			},
			Limits: []string{
				"It follows load with a delay and not in proportion: with twice the servers latency does not halve. Let something else scale down.",
				"A percentile is as fine as the server's buckets.",
				"Triton's is the time to the first response of a decoupled model, and off by default.",
			},
		}, {
			Signal: "queue_time_p95", Unit: "seconds",
			Meaning: "95th percentile of the time requests waited over two minutes, of the worst server.",
			Use:     "Where a time is easier to agree on than a length: it needs no knowledge of how fast a replica is.",
			Targets: []Advice{{"a tenth to a quarter of the time to the first token you promise", "a rule of thumb of ours, not of a server's project"}},
			Limits:  []string{"A request counts when its waiting ends: a queue that does not move at all shows here last."},
		}, {
			Signal: "queue_time_mean", Unit: "seconds",
			Meaning: "Mean time requests waited over two minutes, of the worst server.",
			Use:     "Triton, which counts time and requests only. A mean is no percentile, so it does not pass for `queue_time_p95`.",
			Limits:  []string{"A mean hides the few that waited long.", "Triton divides by requests that ended well; where many fail it reads high."},
		}, {
			Signal: "gpu_tensor_active", Unit: "ratio, 0 to 1",
			Meaning: "Share of cycles in which the tensor pipe was active on what the pod holds.",
			Use:     "Prompt-heavy or training work, where it comes closest to how much of the card is used.",
			Limits:  []string{"Decoding is bound by memory: it stays low on a server that is full.", "Needs DCGM's profiling counters (Volta or newer, not while another profiler runs)."},
		}, {
			Signal: "gpu_dram_active", Unit: "ratio, 0 to 1",
			Meaning: "Share of cycles in which the memory interface moved data on what the pod holds.",
			Use:     "Decode-heavy work: reading weights and caches is what limits it.",
			Limits:  []string{"Near its highest already with small batches, since every step reads all weights.", "Needs DCGM's profiling counters."},
		},
	}
}
