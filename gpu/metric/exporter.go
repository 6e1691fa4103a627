package metric

// The exporter's series about itself.
var (
	ExporterBuildInfo = emit(Exporter, Gauge, Info, "gpuscale_exporter_build_info",
		"The exporter's version. Always 1.", LabelVersion, LabelGoVersion)
	ExporterUp = emit(Exporter, Gauge, Bool, "gpuscale_exporter_source_up",
		"1 while DCGM answers, 0 while it does not.")
	ExporterReads = emit(Exporter, Counter, None, "gpuscale_exporter_reads_total",
		`Passes over the source, by result: "ok" or "error".`, LabelResult)
	ExporterReadSeconds = emit(Exporter, Histogram, Seconds, "gpuscale_exporter_read_duration_seconds",
		"Time of one pass over the source.")
	ExporterReconnects = emit(Exporter, Counter, None, "gpuscale_exporter_reconnects_total",
		"Times the connection to DCGM was made again.")
	ExporterDropped = emit(Exporter, Counter, None, "gpuscale_exporter_values_dropped_total",
		`Values left out as invalid: "blank", "not_supported", "impossible", "error", "stale".`, LabelReason)
	ExporterSeries = emit(Exporter, Gauge, None, "gpuscale_exporter_series",
		"Series in the last exposition.")
	ExporterSeriesDropped = emit(Exporter, Counter, None, "gpuscale_exporter_series_dropped_total",
		"Series left out of an exposition because it would have had more than --max-series, by family.", LabelFamily)
	ExporterScrapeSeconds = emit(Exporter, Histogram, Seconds, "gpuscale_exporter_scrape_duration_seconds",
		"Time to render an exposition, sending it not included.")
	ExporterQuiesced = emit(Exporter, Gauge, None, "gpuscale_exporter_quiesced_gpus",
		"GPUs released on request, so that they can be repartitioned.")
	ExporterNodeWrites = emit(Exporter, Counter, None, "gpuscale_exporter_node_writes_total",
		`Writes to the Kubernetes API about the exporter's node, by kind ("condition", "event", "acknowledgement") and result ("ok", "error").`,
		LabelKind, LabelResult)
	ExporterAttributionErrors = emit(Exporter, Counter, None, "gpuscale_exporter_attribution_errors_total",
		"Times the kubelet did not report device allocations.")
	ExporterReloads = emit(Exporter, Counter, None, "gpuscale_exporter_reload_total",
		`Times the counters were read again, by result: "ok" or "error".`, LabelResult)
	ExporterReloadSuccessful = emit(Exporter, Gauge, Bool, "gpuscale_exporter_reload_successful",
		"1 while the newest counters file is in use, 0 while it is invalid and the previous one is in use.")
	ExporterReloadSuccessTime = emit(Exporter, Gauge, Seconds, "gpuscale_exporter_reload_success_timestamp_seconds",
		"Unix time at which the counters in use were read.")
)
