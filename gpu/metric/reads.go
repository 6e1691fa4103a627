package metric

import "strings"

// Read is a series that other software emits and the adapter reads.
type Read struct {
	Name   string
	Type   Type
	Unit   Unit
	Server string // that emits it: one of the Server names
	Help   string
	Labels []string // that distinguish series of one pod, without the scrape's own
}

// Escape is the name that prometheus_client serves where colons count as UTF-8: to
// Prometheus 2, and to 3 with metric_name_validation_scheme legacy (choose_encoder of
// client_python 0.25, its issue 1177). SGLang's page is such a one, and that of KServe's own
// server for vLLM; vLLM writes its own in the text format, where they stay.
func Escape(name string) string { return strings.ReplaceAll(name, ":", "_") }

// Names are those under which series may be stored: as the servers have them, escaped, and as
// Ray's wrapper renames those of the servers that run under it.
func Names(of ...Read) (names []string) {
	for _, r := range of {
		names = append(names, r.Name)
		escaped := Escape(r.Name)
		if escaped != r.Name {
			names = append(names, escaped)
		}
		if r.Server == ServerVLLM || r.Server == ServerSGLang {
			names = append(names, "ray_"+escaped)
		}
	}
	return names
}

// Servers whose series are read.
const (
	ServerVLLM     = "vllm"
	ServerSGLang   = "sglang"
	ServerTRTLLM   = "tensorrt-llm" // trtllm-serve
	ServerTriton   = "triton"       // and its TensorRT-LLM backend
	ServerTGI      = "tgi"
	ServerTEI      = "tei"
	ServerNIM      = "nim"
	ServerLlama    = "llama.cpp" // llama-server --metrics
	ServerLMDeploy = "lmdeploy"  // its api_server
	ServerRay      = "ray-serve"
	ServerDynamo   = "dynamo"
	ServerEPP      = "epp"  // the endpoint pickers of GAIE and llm-d
	ServerDCGM     = "dcgm" // dcgm-exporter, and our exporter under the same names
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
	LabelMode          = "mode"
	LabelStage         = "stage"
	LabelDeployment    = "deployment"
	LabelApplication   = "application"
	LabelReplica       = "replica"
	LabelHandle        = "handle"
	LabelActorID       = "actor_id"
	LabelReplicaID     = "ReplicaId" // Ray's, as the next
	LabelWorkerID      = "WorkerId"
	LabelTargetModel   = "target_model_name"
	LabelFairnessID    = "fairness_id"
	LabelPriority      = "priority"
	LabelStreaming     = "is_streaming" // of SGLang's counts of requests and tokens, since 2026
	LabelInferencePool = "inference_pool"
	LabelName          = "name"
	LabelUUID          = "UUID"
	LabelGPUI          = "GPU_I_ID"
)
