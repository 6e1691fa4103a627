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

// UnderRay is the name that Ray's wrapper gives a series of a server that runs under it.
func UnderRay(name string) string { return "ray_" + Escape(name) }

// UnderKServe is the name that the monitors of Open Data Hub and OpenShift AI give a series of
// an LLMInferenceService: until 2026 they were the only ones
// (pkg/controller/llmisvc/monitoring.go of opendatahub-io/kserve at 5c0eae1).
func UnderKServe(name string) string { return "kserve_" + name }

// Names are those under which series may be stored: as the servers have them, escaped, and as
// Ray's wrapper and KServe's monitors rename those of the servers that run under them.
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

// GatewayLabels are those by which gateways repeat the series of their servers under the servers'
// own names: the router of vLLM's production stack its queues
// (src/vllm_router/services/metrics_service at 0c740a2), and SGLang's gateway at /engine_metrics
// its workers' whole pages, vLLM's too, each colon an underscore
// (src/core/metrics_aggregator.rs of sgl-router at 1117d05).
func GatewayLabels() []string { return []string{LabelRoutedServer, LabelWorkerAddr} }
