package metric

// Read is a series that other software emits and the adapter reads.
type Read struct {
	Name   string
	Type   Type
	Unit   Unit
	Server string // that emits it: one of the Server names
	Help   string
	Labels []string // that distinguish series of one pod, without the scrape's own
}

// Servers whose series are read.
const (
	ServerVLLM   = "vllm"
	ServerSGLang = "sglang"
	ServerTRTLLM = "tensorrt-llm" // trtllm-serve
	ServerTriton = "triton"       // and its TensorRT-LLM backend
	ServerTGI    = "tgi"
	ServerTEI    = "tei"
	ServerNIM    = "nim"
	ServerLlama  = "llama.cpp" // llama-server --metrics
	ServerRay    = "ray-serve"
	ServerDynamo = "dynamo"
	ServerEPP    = "epp"  // the endpoint pickers of GAIE and llm-d
	ServerDCGM   = "dcgm" // dcgm-exporter, and our exporter under the same names
)

// Labels of other software's series. ModelName is how most servers name the model
// served, Model how Triton and Dynamo do; Engine is vLLM's data-parallel rank,
// DPRank that of the other servers.
const (
	LabelModelName     = "model_name"
	LabelEngine        = "engine"
	LabelEngineType    = "engine_type"
	LabelDPRank        = "dp_rank"
	LabelRequestType   = "request_type"
	LabelBlockType     = "kv_cache_block_type"
	LabelDeployment    = "deployment"
	LabelApplication   = "application"
	LabelReplica       = "replica"
	LabelHandle        = "handle"
	LabelActorID       = "actor_id"
	LabelTargetModel   = "target_model_name"
	LabelFairnessID    = "fairness_id"
	LabelPriority      = "priority"
	LabelInferencePool = "inference_pool"
	LabelName          = "name"
	LabelUUID          = "UUID"
	LabelGPUI          = "GPU_I_ID"
)
