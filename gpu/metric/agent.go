package metric

// Agent is the MIG agent: "gpuscale-autoscaler agent", on the nodes whose cards it cuts.
const Agent Owner = "agent"

// What the MIG agent says about its work and its cards.
var (
	AgentBuildInfo = Desc{
		Name: "gpuscale_agent_build_info", Type: Gauge, Unit: Info, Owner: Agent, Stability: Alpha,
		Help:   "The agent's version. Always 1.",
		Labels: []string{LabelVersion, LabelGoVersion},
	}
	AgentOperations = Desc{
		Name: "gpuscale_agent_operations_total", Type: Counter, Unit: None, Owner: Agent, Stability: Alpha,
		Help: `Operations by phase, "cut" or "restore", and result: "done", "refused" with the card not touched, "failed", ` +
			`"interrupted" where it goes on at the next look. Absent until there is one.`,
		Labels: []string{LabelPhase, LabelResult},
	}
	AgentStepSeconds = Desc{
		Name: "gpuscale_agent_step_duration_seconds", Type: Histogram, Unit: Seconds, Owner: Agent, Stability: Alpha,
		Help:   `Time of one step, failed ones included, by verb: "read" of all cards, "destroy", "create", "mode", "exporter" letting go, "plugin" restarting.`,
		Labels: []string{LabelVerb},
	}
	AgentCards = Desc{
		Name: "gpuscale_agent_cards", Type: Gauge, Unit: None, Owner: Agent, Stability: Alpha,
		Help:   `Cards of the node by state: "mig", "whole" (not in MIG mode), "unreadable". Absent while the driver cannot be asked.`,
		Labels: []string{LabelState},
	}
	AgentPermitted = Desc{
		Name: "gpuscale_agent_permitted", Type: Gauge, Unit: Bool, Owner: Agent, Stability: Alpha,
		Help: "1 while nothing keeps the agent from beginning an operation; 0 where the report on the node says what does.",
	}
	AgentLastReport = Desc{
		Name: "gpuscale_agent_last_report_timestamp_seconds", Type: Gauge, Unit: Seconds, Owner: Agent, Stability: Alpha,
		Help: "Unix time at which what the node's annotation says was last made sure of.",
	}
	AgentNVMLErrors = Desc{
		Name: "gpuscale_agent_nvml_errors_total", Type: Counter, Unit: None, Owner: Agent, Stability: Alpha,
		Help:   `Errors of the driver, one for each card and call, by reason: "lost", "in_use", "no_room", "needs_reset", "hanging", "no_such_card", "no_library", "other".`,
		Labels: []string{LabelReason},
	}
)

func agentSeries() []Desc {
	return []Desc{AgentBuildInfo, AgentOperations, AgentStepSeconds, AgentCards, AgentPermitted, AgentLastReport, AgentNVMLErrors}
}
