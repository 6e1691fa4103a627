package metric

// Agent is the MIG agent: "gpuscale-autoscaler agent", on the nodes whose GPUs it
// repartitions.
const Agent Owner = "agent"

// The MIG agent's series about its operations and its GPUs.
var (
	AgentBuildInfo = Desc{
		Name: "gpuscale_agent_build_info", Type: Gauge, Unit: Info, Owner: Agent, Stability: Alpha,
		Help:   "The agent's version. Always 1.",
		Labels: []string{LabelVersion, LabelGoVersion},
	}
	AgentOperations = Desc{
		Name: "gpuscale_agent_operations_total", Type: Counter, Unit: None, Owner: Agent, Stability: Alpha,
		Help: `Operations by phase, "repartition" or "restore", and result: "done", "refused" with the GPU unchanged, "failed", ` +
			`"interrupted" where the next pass continues. Absent until there is one.`,
		Labels: []string{LabelPhase, LabelResult},
	}
	AgentStepSeconds = Desc{
		Name: "gpuscale_agent_step_duration_seconds", Type: Histogram, Unit: Seconds, Owner: Agent, Stability: Alpha,
		Help:   `Time of one step, failed ones included, by verb: "read" of all GPUs, "destroy", "create", "mode", "exporter" releasing the GPU, "plugin" restarting.`,
		Labels: []string{LabelVerb},
	}
	AgentGPUs = Desc{
		Name: "gpuscale_agent_gpus", Type: Gauge, Unit: None, Owner: Agent, Stability: Alpha,
		Help:   `GPUs of the node by state: "mig", "whole" (not in MIG mode), "unreadable". Absent while the driver cannot be asked.`,
		Labels: []string{LabelState},
	}
	AgentPermitted = Desc{
		Name: "gpuscale_agent_permitted", Type: Gauge, Unit: Bool, Owner: Agent, Stability: Alpha,
		Help: "1 while the agent may begin an operation; 0 while it may not, for the reason in the node's annotation.",
	}
	AgentLastReport = Desc{
		Name: "gpuscale_agent_last_report_timestamp_seconds", Type: Gauge, Unit: Seconds, Owner: Agent, Stability: Alpha,
		Help: "Unix time at which the node's annotation was last verified.",
	}
	AgentNVMLErrors = Desc{
		Name: "gpuscale_agent_nvml_errors_total", Type: Counter, Unit: None, Owner: Agent, Stability: Alpha,
		Help:   `Errors of the driver, one for each GPU and call, by reason: "lost", "in_use", "no_free_slices", "needs_reset", "hanging", "no_such_gpu", "no_library", "other".`,
		Labels: []string{LabelReason},
	}
)

func agentSeries() []Desc {
	return []Desc{AgentBuildInfo, AgentOperations, AgentStepSeconds, AgentGPUs, AgentPermitted, AgentLastReport, AgentNVMLErrors}
}
