package metric

// The adapter's series about its rules and itself.
var (
	AdapterBuildInfo = emit(Adapter, Gauge, Info, "gpuscale_adapter_build_info",
		"The adapter's version. Always 1.", LabelVersion, LabelGoVersion)
	AdapterQueries = emit(Adapter, Counter, None, "gpuscale_adapter_queries_total",
		`Queries to the metrics backend, by rule and result: "ok", "error", "partial".`,
		LabelBackend, LabelRule, LabelResult)
	AdapterQuerySeconds = emit(Adapter, Histogram, Seconds, "gpuscale_adapter_query_duration_seconds",
		"Time of one query to the metrics backend.", LabelBackend)
	AdapterRuleAge = emit(Adapter, Gauge, Seconds, "gpuscale_adapter_rule_age_seconds",
		"Time since a rule last had a good answer in each namespace that asks: the longest.", LabelRule)
	AdapterSeries = emit(Adapter, Gauge, None, "gpuscale_adapter_series",
		"Series in a rule's last good answers.", LabelRule)
	AdapterDropped = emit(Adapter, Counter, None, "gpuscale_adapter_samples_dropped_total",
		`Samples left out, by rule and reason: "nan", "infinite", "stale", "unlabelled", "out_of_range", "untrusted", "crowded" (of a pod with more than 2,048 series).`,
		LabelRule, LabelReason)
	AdapterQuestions = emit(Adapter, Gauge, None, "gpuscale_adapter_questions_active",
		"Rules and metric selectors in use, counted once for each namespace, by backend. Up to 50 namespaces share a query each interval.",
		LabelBackend)
	AdapterAnswers = emit(Adapter, Counter, None, "gpuscale_adapter_answers_total",
		"Answers given to the metrics APIs, by rule and HTTP status code.", LabelRule, LabelCode)
	AdapterRuleState = emit(Adapter, Gauge, None, "gpuscale_adapter_rule_state",
		`1 for the state a rule is in: "in_force", or "rejected": it cannot be used.`, LabelRule, LabelState)
	AdapterReloadGood = emit(Adapter, Gauge, None, "gpuscale_adapter_config_reload_good",
		"1 if the configuration file that is there now is in force, 0 if it cannot be used and the one before stays.")
	AdapterReloadTime = emit(Adapter, Gauge, Seconds, "gpuscale_adapter_config_in_force_since_timestamp_seconds",
		"When the configuration that is in force was read.")
	AdapterReloadFailures = emit(Adapter, Counter, None, "gpuscale_adapter_config_reload_failures_total",
		"Contents of the configuration file that could not be used.")
	AdapterConfigInfo = emit(Adapter, Gauge, Info, "gpuscale_adapter_config_info",
		"The configuration in force, by the hash of its file. Always 1.", LabelHash)
	AdapterForwarded = emit(Adapter, Counter, None, "gpuscale_adapter_forwarded_total",
		"Requests for external metrics no rule has the name of, passed on to the other metrics server, by the HTTP status code answered.",
		LabelCode)
)
