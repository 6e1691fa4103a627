package metric

// The exporter's series about itself.
var (
	ExporterBuildInfo = Desc{
		Name: "gpuscale_exporter_build_info", Type: Gauge, Unit: Info, Owner: Exporter, Stability: Alpha,
		Help:   "The exporter's version. Always 1.",
		Labels: []string{LabelVersion, LabelGoVersion},
	}
	ExporterUp = Desc{
		Name: "gpuscale_exporter_source_up", Type: Gauge, Unit: Bool, Owner: Exporter, Stability: Alpha,
		Help: "1 while DCGM answers, 0 while it does not.",
	}
	ExporterReads = Desc{
		Name: "gpuscale_exporter_reads_total", Type: Counter, Unit: None, Owner: Exporter, Stability: Alpha,
		Help:   `Passes over the source, by result: "ok" or "error".`,
		Labels: []string{LabelResult},
	}
	ExporterReadSeconds = Desc{
		Name: "gpuscale_exporter_read_duration_seconds", Type: Histogram, Unit: Seconds, Owner: Exporter, Stability: Alpha,
		Help: "Time of one pass over the source.",
	}
	ExporterReconnects = Desc{
		Name: "gpuscale_exporter_reconnects_total", Type: Counter, Unit: None, Owner: Exporter, Stability: Alpha,
		Help: "Times the connection to DCGM was made again.",
	}
	ExporterDropped = Desc{
		Name: "gpuscale_exporter_values_dropped_total", Type: Counter, Unit: None, Owner: Exporter, Stability: Alpha,
		Help:   `Values left out as invalid: "blank", "not_supported", "impossible", "error", "stale".`,
		Labels: []string{LabelReason},
	}
	ExporterSeries = Desc{
		Name: "gpuscale_exporter_series", Type: Gauge, Unit: None, Owner: Exporter, Stability: Alpha,
		Help: "Series in the last exposition.",
	}
	ExporterSeriesDropped = Desc{
		Name: "gpuscale_exporter_series_dropped_total", Type: Counter, Unit: None, Owner: Exporter, Stability: Alpha,
		Help:   "Series left out of an exposition because it would have had more than --max-series, by family.",
		Labels: []string{LabelFamily},
	}
	ExporterScrapeSeconds = Desc{
		Name: "gpuscale_exporter_scrape_duration_seconds", Type: Histogram, Unit: Seconds, Owner: Exporter, Stability: Alpha,
		Help: "Time to render an exposition, sending it not included.",
	}
	ExporterQuiesced = Desc{
		Name: "gpuscale_exporter_quiesced_gpus", Type: Gauge, Unit: None, Owner: Exporter, Stability: Alpha,
		Help: "GPUs released on request, so that they can be repartitioned.",
	}
	ExporterNodeWrites = Desc{
		Name: "gpuscale_exporter_node_writes_total", Type: Counter, Unit: None, Owner: Exporter, Stability: Alpha,
		Help:   `Writes to the Kubernetes API about the exporter's node, by kind ("condition", "event", "acknowledgement") and result ("ok", "error").`,
		Labels: []string{LabelKind, LabelResult},
	}
	ExporterAttributionErrors = Desc{
		Name: "gpuscale_exporter_attribution_errors_total", Type: Counter, Unit: None, Owner: Exporter, Stability: Alpha,
		Help: "Times the kubelet did not report device allocations.",
	}
	ExporterReloads = Desc{
		Name: "gpuscale_exporter_reload_total", Type: Counter, Unit: None, Owner: Exporter, Stability: Alpha,
		Help:   `Times the counters were read again, by result: "ok" or "error".`,
		Labels: []string{LabelResult},
	}
	ExporterReloadSuccessful = Desc{
		Name: "gpuscale_exporter_reload_successful", Type: Gauge, Unit: Bool, Owner: Exporter, Stability: Alpha,
		Help: "1 while the newest counters file is in use, 0 while it is invalid and the previous one is in use.",
	}
	ExporterReloadSuccessTime = Desc{
		Name: "gpuscale_exporter_reload_success_timestamp_seconds", Type: Gauge, Unit: Seconds, Owner: Exporter, Stability: Alpha,
		Help: "Unix time at which the counters in use were read.",
	}
)

func exporterSeries() []Desc {
	return []Desc{
		ExporterBuildInfo, ExporterUp, ExporterReads, ExporterReadSeconds, ExporterReconnects, ExporterDropped,
		ExporterSeries, ExporterSeriesDropped, ExporterScrapeSeconds, ExporterQuiesced, ExporterNodeWrites,
		ExporterAttributionErrors,
		ExporterReloads, ExporterReloadSuccessful, ExporterReloadSuccessTime,
	}
}
