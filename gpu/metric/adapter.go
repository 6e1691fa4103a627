package metric

// The adapter's series about its rules and itself.
var (
	AdapterBuildInfo = Desc{
		Name: "gpuscale_adapter_build_info", Type: Gauge, Unit: Info, Owner: Adapter, Stability: Alpha,
		Help:   "The adapter's version. Always 1.",
		Labels: []string{LabelVersion, LabelGoVersion},
	}
	AdapterQueries = Desc{
		Name: "gpuscale_adapter_queries_total", Type: Counter, Unit: None, Owner: Adapter, Stability: Alpha,
		Help:   `Queries to the metrics backend, by rule and result: "ok", "error", "partial".`,
		Labels: []string{LabelBackend, LabelRule, LabelResult},
	}
	AdapterQuerySeconds = Desc{
		Name: "gpuscale_adapter_query_duration_seconds", Type: Histogram, Unit: Seconds, Owner: Adapter, Stability: Alpha,
		Help:   "Time of one query to the metrics backend.",
		Labels: []string{LabelBackend},
	}
	AdapterRuleAge = Desc{
		Name: "gpuscale_adapter_rule_age_seconds", Type: Gauge, Unit: Seconds, Owner: Adapter, Stability: Alpha,
		Help:   "Time since a rule last had a good answer in each namespace that asks: the longest.",
		Labels: []string{LabelRule},
	}
	AdapterSeries = Desc{
		Name: "gpuscale_adapter_series", Type: Gauge, Unit: None, Owner: Adapter, Stability: Alpha,
		Help:   "Series in a rule's last good answers.",
		Labels: []string{LabelRule},
	}
	AdapterDropped = Desc{
		Name: "gpuscale_adapter_samples_dropped_total", Type: Counter, Unit: None, Owner: Adapter, Stability: Alpha,
		Help:   `Samples left out, by rule and reason: "nan", "infinite", "stale", "unlabelled", "out_of_range", "untrusted", "crowded" (of a pod with more than 256 series).`,
		Labels: []string{LabelRule, LabelReason},
	}
	AdapterQuestions = Desc{
		Name: "gpuscale_adapter_questions_active", Type: Gauge, Unit: None, Owner: Adapter, Stability: Alpha,
		Help:   "Rules and metric selectors in use, counted once for each namespace, by backend. Up to 50 namespaces share a query each interval.",
		Labels: []string{LabelBackend},
	}
	AdapterAnswers = Desc{
		Name: "gpuscale_adapter_answers_total", Type: Counter, Unit: None, Owner: Adapter, Stability: Alpha,
		Help:   "Answers given to the metrics APIs, by rule and HTTP status code.",
		Labels: []string{LabelRule, LabelCode},
	}
	AdapterRuleState = Desc{
		Name: "gpuscale_adapter_rule_state", Type: Gauge, Unit: None, Owner: Adapter, Stability: Alpha,
		Help:   `1 for the state a rule is in: "in_force", or "rejected": it cannot be used.`,
		Labels: []string{LabelRule, LabelState},
	}
	AdapterReloadGood = Desc{
		Name: "gpuscale_adapter_config_reload_good", Type: Gauge, Unit: None, Owner: Adapter, Stability: Alpha,
		Help: "1 if the configuration file that is there now is in force, 0 if it cannot be used and the one before stays.",
	}
	AdapterReloadTime = Desc{
		Name: "gpuscale_adapter_config_in_force_since_timestamp_seconds", Type: Gauge, Unit: Seconds, Owner: Adapter, Stability: Alpha,
		Help: "When the configuration that is in force was read.",
	}
	AdapterReloadFailures = Desc{
		Name: "gpuscale_adapter_config_reload_failures_total", Type: Counter, Unit: None, Owner: Adapter, Stability: Alpha,
		Help: "Contents of the configuration file that could not be used.",
	}
	AdapterConfigInfo = Desc{
		Name: "gpuscale_adapter_config_info", Type: Gauge, Unit: Info, Owner: Adapter, Stability: Alpha,
		Help:   "The configuration in force, by the hash of its file. Always 1.",
		Labels: []string{LabelHash},
	}
	AdapterForwarded = Desc{
		Name: "gpuscale_adapter_forwarded_total", Type: Counter, Unit: None, Owner: Adapter, Stability: Alpha,
		Help:   "Requests for external metrics no rule has the name of, passed on to the other metrics server, by the HTTP status code answered.",
		Labels: []string{LabelCode},
	}
)

func adapterSeries() []Desc {
	return []Desc{
		AdapterBuildInfo, AdapterQueries, AdapterQuerySeconds, AdapterRuleAge, AdapterSeries, AdapterDropped, AdapterQuestions, AdapterAnswers, AdapterForwarded,
		AdapterRuleState, AdapterReloadGood, AdapterReloadTime, AdapterReloadFailures, AdapterConfigInfo,
	}
}
