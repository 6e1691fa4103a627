package metric

// Series of Text Generation Inference: one model a server, so no labels.
var (
	TGIQueue = Read{
		Name: "tgi_queue_size", Type: Gauge, Unit: None, Server: ServerTGI,
		Help: "Requests in the queue.",
	}
	TGIBatch = Read{
		Name: "tgi_batch_current_size", Type: Gauge, Unit: None, Server: ServerTGI,
		Help: "Requests in the batch being worked on.",
	}
	TGIBatchLimit = Read{
		Name: "tgi_batch_max_total_tokens", Type: Gauge, Unit: None, Server: ServerTGI,
		Help: "Tokens that a batch may have. Set once the model is loaded, so it shows a server that has had no request yet.",
	}
	TGIQueueDuration = Read{
		Name: "tgi_request_queue_duration", Type: Histogram, Unit: None, Server: ServerTGI,
		Help: "Time a request waited, in seconds.",
	}
)

func tgiReads() []Read { return []Read{TGIQueue, TGIBatch, TGIBatchLimit, TGIQueueDuration} }

// Series of Text Embeddings Inference: one model a server, so no labels.
var (
	TEIQueue = Read{
		Name: "te_queue_size", Type: Gauge, Unit: None, Server: ServerTEI,
		Help: "Requests in the queue.",
	}
	TEIQueueDuration = Read{
		Name: "te_request_queue_duration", Type: Histogram, Unit: None, Server: ServerTEI,
		Help: "Time a request waited, in seconds.",
	}
)

func teiReads() []Read { return []Read{TEIQueue, TEIQueueDuration} }

// Series of NVIDIA NIM for large language models. Their names have no prefix.
var (
	NIMWaiting = Read{
		Name: "num_requests_waiting", Type: Gauge, Unit: None, Server: ServerNIM, Labels: []string{LabelModelName},
		Help: "Requests waiting to be processed.",
	}
	NIMRunning = Read{
		Name: "num_requests_running", Type: Gauge, Unit: None, Server: ServerNIM, Labels: []string{LabelModelName},
		Help: "Requests running on the GPU.",
	}
	NIMCacheUsage = Read{
		Name: "gpu_cache_usage_perc", Type: Gauge, Unit: Ratio, Server: ServerNIM, Labels: []string{LabelModelName},
		Help: "Share of the KV cache in use; 1 is all of it.",
	}
	NIMFirstToken = Read{
		Name: "time_to_first_token_seconds", Type: Histogram, Unit: Seconds, Server: ServerNIM, Labels: []string{LabelModelName},
		Help: "Time from a request to its first token.",
	}
	NIMGenerationTokens = Read{
		Name: "generation_tokens_total", Type: Counter, Unit: None, Server: ServerNIM, Labels: []string{LabelModelName},
		Help: "Tokens written.",
	}
)

func nimReads() []Read {
	return []Read{NIMWaiting, NIMRunning, NIMCacheUsage, NIMFirstToken, NIMGenerationTokens}
}

// Series of Ray Serve about its deployments, whatever runs in them. Its
// documentation omits the prefix "ray_", which every scrape has.
var (
	RayQueued = Read{
		Name: "ray_serve_deployment_queued_queries", Type: Gauge, Unit: None, Server: ServerRay,
		Labels: []string{LabelDeployment, LabelApplication, LabelHandle, LabelActorID},
		Help:   "Requests that wait for a replica, as counted by the caller.",
	}
	RayProcessing = Read{
		Name: "ray_serve_replica_processing_queries", Type: Gauge, Unit: None, Server: ServerRay,
		Labels: []string{LabelDeployment, LabelApplication, LabelReplica},
		Help:   "Requests a replica is working on.",
	}
)

func rayReads() []Read { return []Read{RayQueued, RayProcessing} }

// Series of Dynamo's frontend about the requests it has forwarded, and of its
// workers about themselves.
var (
	DynamoQueued = Read{
		Name: "dynamo_frontend_queued_requests", Type: Gauge, Unit: None, Server: ServerDynamo, Labels: []string{LabelModel},
		Help: "Requests without a first token yet: those that wait and those whose prompt is being read.",
	}
	DynamoInflight = Read{
		Name: "dynamo_frontend_inflight_requests", Type: Gauge, Unit: None, Server: ServerDynamo, Labels: []string{LabelModel},
		Help: "Requests forwarded to a worker and not completed, those that wait there included.",
	}
	DynamoFirstToken = Read{
		Name: "dynamo_frontend_time_to_first_token_seconds", Type: Histogram, Unit: Seconds, Server: ServerDynamo, Labels: []string{LabelModel},
		Help: "Time from the request to its first token, measured in the frontend.",
	}
	DynamoOutputTokens = Read{
		Name: "dynamo_frontend_output_tokens_total", Type: Counter, Unit: None, Server: ServerDynamo, Labels: []string{LabelModel},
		Help: "Tokens written.",
	}
	DynamoCacheUsage = Read{
		Name: "dynamo_component_gpu_cache_usage_percent", Type: Gauge, Unit: None, Server: ServerDynamo,
		Labels: []string{LabelModel, LabelDPRank},
		Help:   "Share of a worker's KV cache in use, 0 to 1 despite its name.",
	}
	DynamoCacheUsageOld = Read{
		Name: "dynamo_component_kvstats_gpu_cache_usage_percent", Type: Gauge, Unit: None, Server: ServerDynamo,
		Labels: []string{LabelModel, LabelDPRank},
		Help:   "The name of dynamo_component_gpu_cache_usage_percent before Dynamo 1.0.",
	}
)

func dynamoReads() []Read {
	return []Read{DynamoQueued, DynamoInflight, DynamoFirstToken, DynamoOutputTokens, DynamoCacheUsage, DynamoCacheUsageOld}
}
