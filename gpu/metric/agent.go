package metric

// Agent is the MIG agent: gpuscale-agent, on the nodes whose GPUs it
// repartitions.
const Agent Owner = "agent"

// The MIG agent's series about its operations and its GPUs.
var (
	AgentBuildInfo = emit(Agent, Gauge, Info, "gpuscale_agent_build_info",
		"The agent's version. Always 1.", LabelVersion, LabelGoVersion)
	AgentOperations = emit(Agent, Counter, None, "gpuscale_agent_operations_total",
		`Operations by phase, "repartition" or "restore", and result: "done", "refused" with the GPU unchanged, "failed", `+
			`"interrupted" where the next pass continues. Absent until there is one.`,
		LabelPhase, LabelResult)
	AgentStepSeconds = emit(Agent, Histogram, Seconds, "gpuscale_agent_step_duration_seconds",
		`Time of one step, failed ones included, by verb: "read" of all GPUs, "destroy", "create", "exporter" releasing the GPU, "plugin" restarting.`,
		LabelVerb)
	AgentGPUs = emit(Agent, Gauge, None, "gpuscale_agent_gpus",
		`GPUs of the node by state: "mig", "whole" (not in MIG mode), "unreadable". Absent while the driver cannot be asked.`,
		LabelState)
	AgentPermitted = emit(Agent, Gauge, Bool, "gpuscale_agent_permitted",
		"1 while the agent may begin an operation; 0 while it may not, for the reason in the node's annotation.")
	AgentLastReport = emit(Agent, Gauge, Seconds, "gpuscale_agent_last_report_timestamp_seconds",
		"Unix time at which the node's annotation was last verified.")
	AgentNVMLErrors = emit(Agent, Counter, None, "gpuscale_agent_nvml_errors_total",
		`Errors of the driver, one for each GPU and call, by reason: "lost", "in_use", "no_free_slices", "needs_reset", "hanging", "no_such_gpu", "no_library", "other".`,
		LabelReason)
)
