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

// Mark is the label without which a series of this name is another program's; "" if no other program has the
// name. The names of NIM have no prefix, and it counts by model (its page on observability).
func (r Read) Mark() string {
	if r.Server == ServerNIM {
		return LabelModelName
	}
	return ""
}

// Escape returns the name with underscores for colons. prometheus_client serves it to
// Prometheus 2, and to 3 with metric_name_validation_scheme legacy, since it counts colons as
// UTF-8 (choose_encoder of client_python 0.25, its issue 1177). SGLang's page has such names, and
// that of KServe's own server for vLLM. vLLM writes its own page in the text format, where colons
// stay.
func Escape(name string) string { return strings.ReplaceAll(name, ":", "_") }

// UnderRay is the name that Ray's wrapper gives a series of a server that runs under it.
func UnderRay(name string) string { return "ray_" + Escape(name) }

// UnderKServe is the name that the monitors of Open Data Hub and OpenShift AI give a series of
// an LLMInferenceService: until 2026 they were the only ones
// (pkg/controller/llmisvc/monitoring.go of opendatahub-io/kserve at 5c0eae1).
func UnderKServe(name string) string { return "kserve_" + name }

// Names returns the names under which series may be stored: the server's own, the escaped one, and
// for servers that run under Ray or KServe those that Ray's wrapper and KServe's monitors give them.
func Names(of ...Read) (names []string) {
	for _, r := range of {
		names = append(names, r.Name)
		if escaped := Escape(r.Name); escaped != r.Name {
			names = append(names, escaped)
		}
		if r.Server == ServerVLLM || r.Server == ServerSGLang {
			names = append(names, UnderRay(r.Name))
		}
		if r.Server == ServerVLLM || r.Server == ServerEPP {
			names = append(names, UnderKServe(r.Name))
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
	LabelRoutedServer  = "server"       // see GatewayLabels
	LabelWorkerAddr    = "worker_addr"
	LabelInferencePool = "inference_pool"
	LabelName          = "name"
	LabelUUID          = "UUID"
	LabelGPUI          = "GPU_I_ID"
)

// GatewayLabels are labels of series that gateways repeat for their servers, under the servers'
// own names. The router of vLLM's production stack repeats the queues of its servers
// (src/vllm_router/services/metrics_service at 0c740a2). SGLang's gateway repeats its workers'
// whole pages at /engine_metrics, vLLM's too, with underscores for colons
// (src/core/metrics_aggregator.rs of sgl-router at 1117d05).
func GatewayLabels() []string { return []string{LabelRoutedServer, LabelWorkerAddr} }
