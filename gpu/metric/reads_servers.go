package metric

// Series of Text Generation Inference: one model a server, so no labels.
var (
	TGIQueue = read(ServerTGI, Gauge, None, "tgi_queue_size",
		"Requests in the queue.")
	TGIBatch = read(ServerTGI, Gauge, None, "tgi_batch_current_size",
		"Requests in the batch being worked on.")
	TGIBatchLimit = read(ServerTGI, Gauge, None, "tgi_batch_max_total_tokens",
		"Tokens that a batch may have. Set once the model is loaded, so it shows a server that has had no request yet.")
	TGIQueueDuration = read(ServerTGI, Histogram, None, "tgi_request_queue_duration",
		"Time a request waited, in seconds.")
)

// Series of Text Embeddings Inference: one model a server, so no labels.
var (
	TEIQueue = read(ServerTEI, Gauge, None, "te_queue_size",
		"Requests in the queue.")
	TEIQueueDuration = read(ServerTEI, Histogram, None, "te_request_queue_duration",
		"Time a request waited, in seconds.")
)

// Series of llama.cpp's llama-server. A page is one model's and does not name it; a router has a
// page for each model, at /metrics?model=NAME (tools/server/README.md), and the scrape adds the label.
var (
	LlamaDeferred = read(ServerLlama, Gauge, None, "llamacpp:requests_deferred",
		"Requests that wait for a free slot.", LabelModel)
	LlamaProcessing = read(ServerLlama, Gauge, None, "llamacpp:requests_processing",
		"Slots at work, each on a request.", LabelModel)
)

// Series of LMDeploy's api_server, which sets its gauges every ten seconds.
var (
	LMDeployWaiting = read(ServerLMDeploy, Gauge, None, "lmdeploy:num_requests_waiting",
		"Requests in the engine that wait to be scheduled.", vllmLabels()...)
	LMDeployUnrouted = read(ServerLMDeploy, Gauge, None, "lmdeploy:num_api_requests_waiting",
		"Requests that wait before the engine: it takes no more than a batch has room for. From February 2026 on.", vllmLabels()...)
	LMDeployRunning = read(ServerLMDeploy, Gauge, None, "lmdeploy:num_requests_running",
		"Requests being worked on.", vllmLabels()...)
	LMDeployCacheUsage = read(ServerLMDeploy, Gauge, Ratio, "lmdeploy:gpu_cache_usage_perc",
		"Share of the KV cache in use, 0 to 1 despite its name.", vllmLabels()...)
	LMDeployFirstToken = read(ServerLMDeploy, Histogram, Seconds, "lmdeploy:time_to_first_token_seconds",
		"Time from a request's start in the engine to its first token.", vllmLabels()...)
	LMDeployQueueTime = read(ServerLMDeploy, Histogram, Seconds, "lmdeploy:request_queue_time_seconds",
		"Time a request waited in the engine.", vllmLabels()...)
	LMDeployGenerationTokens = read(ServerLMDeploy, Counter, None, "lmdeploy:generation_tokens_total",
		"Tokens written.", vllmLabels()...)
)

// Series of NVIDIA NIM for large language models. Their names have no prefix.
var (
	NIMWaiting = read(ServerNIM, Gauge, None, "num_requests_waiting",
		"Requests waiting to be processed.", LabelModelName)
	NIMRunning = read(ServerNIM, Gauge, None, "num_requests_running",
		"Requests running on the GPU.", LabelModelName)
	NIMCacheUsage = read(ServerNIM, Gauge, Ratio, "gpu_cache_usage_perc",
		"Share of the KV cache in use; 1 is all of it.", LabelModelName)
	NIMFirstToken = read(ServerNIM, Histogram, Seconds, "time_to_first_token_seconds",
		"Time from a request to its first token.", LabelModelName)
	NIMGenerationTokens = read(ServerNIM, Counter, None, "generation_tokens_total",
		"Tokens written.", LabelModelName)
)

// Series of Ray Serve about its deployments, whatever runs in them. Its
// documentation omits the prefix "ray_", which every scrape has. Since 2026 each has a new name beside the old one,
// which Ray 3 is to remove (java/serve/src/main/java/io/ray/serve/metrics/RayServeMetrics.java; ray#61090).
var (
	RayQueued = read(ServerRay, Gauge, None, "ray_serve_deployment_queued_queries",
		"Requests that wait for a replica, as counted by the caller.", LabelDeployment, LabelApplication, LabelHandle, LabelActorID)
	RayQueuedNew = read(ServerRay, Gauge, None, "ray_serve_router_num_queued_requests",
		"The new name of ray_serve_deployment_queued_queries.", LabelDeployment, LabelApplication, LabelHandle, LabelActorID)
	RayProcessing = read(ServerRay, Gauge, None, "ray_serve_replica_processing_queries",
		"Requests a replica is working on.", LabelDeployment, LabelApplication, LabelReplica)
	RayProcessingNew = read(ServerRay, Gauge, None, "ray_serve_replica_num_ongoing_requests",
		"The new name of ray_serve_replica_processing_queries.", LabelDeployment, LabelApplication, LabelReplica)
)

// Series of Dynamo's frontend about the requests it has forwarded, and of its
// workers about themselves.
var (
	DynamoQueued = read(ServerDynamo, Gauge, None, "dynamo_frontend_queued_requests",
		"Requests without a first token yet: those that wait and those whose prompt is being read.", LabelModel)
	DynamoInflight = read(ServerDynamo, Gauge, None, "dynamo_frontend_inflight_requests",
		"Requests forwarded to a worker and not completed, those that wait there included.", LabelModel)
	DynamoStages = read(ServerDynamo, Gauge, None, "dynamo_frontend_stage_requests",
		"Requests without a first token yet, by where they are. From 2026 on; dynamo_frontend_queued_requests is to go.", LabelStage, LabelPhase)
	DynamoActive = read(ServerDynamo, Gauge, None, "dynamo_frontend_active_requests",
		"The name of dynamo_frontend_inflight_requests from 2026 on.", LabelModel)
	DynamoFirstToken = read(ServerDynamo, Histogram, Seconds, "dynamo_frontend_time_to_first_token_seconds",
		"Time from the request to its first token, measured in the frontend.", LabelModel)
	DynamoOutputTokens = read(ServerDynamo, Counter, None, "dynamo_frontend_output_tokens_total",
		"Tokens written.", LabelModel)
	DynamoCacheUsage = read(ServerDynamo, Gauge, None, "dynamo_component_gpu_cache_usage_percent",
		"Share of a worker's KV cache in use, 0 to 1 despite its name.", LabelModel, LabelDPRank)
	DynamoCacheUsageOld = read(ServerDynamo, Gauge, None, "dynamo_component_kvstats_gpu_cache_usage_percent",
		"The name of dynamo_component_gpu_cache_usage_percent before Dynamo 1.0.", LabelModel, LabelDPRank)
)
