package metric

// What the adapter says about its rules and itself.
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
		Help:   "Time since a rule last had a good answer.",
		Labels: []string{LabelRule},
	}
	AdapterSeries = Desc{
		Name: "gpuscale_adapter_series", Type: Gauge, Unit: None, Owner: Adapter, Stability: Alpha,
		Help:   "Series in a rule's last good answer.",
		Labels: []string{LabelRule},
	}
	AdapterDropped = Desc{
		Name: "gpuscale_adapter_samples_dropped_total", Type: Counter, Unit: None, Owner: Adapter, Stability: Alpha,
		Help:   `Samples left out, by rule and reason: "nan", "infinite", "stale", "unlabelled", "out_of_range".`,
		Labels: []string{LabelRule, LabelReason},
	}
	AdapterAnswers = Desc{
		Name: "gpuscale_adapter_answers_total", Type: Counter, Unit: None, Owner: Adapter, Stability: Alpha,
		Help:   "Answers given to the metrics APIs, by rule and HTTP status code.",
		Labels: []string{LabelRule, LabelCode},
	}
)

func adapterSeries() []Desc {
	return []Desc{
		AdapterBuildInfo, AdapterQueries, AdapterQuerySeconds, AdapterRuleAge, AdapterSeries, AdapterDropped, AdapterAnswers,
	}
}
