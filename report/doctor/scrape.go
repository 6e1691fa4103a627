package doctor

import (
	"fmt"
	"slices"
)

var scrapeChecks = []Check{
	{
		ID: "scrape-missing", Title: "Prometheus scrapes our programs", Run: scrapeMissing,
		Fault: "A program is installed, and Prometheus has no healthy target of it.",
		Means: "Its metrics are lost: boards and reports are empty, HPAs and the autoscaler have no GPU metrics.",
		Looks: []Source{Deployments, DaemonSets, Builds, TargetsDown, Monitoring},
	},
	{
		ID: "exporter-missing", Title: "Every GPU node has an exporter with fresh values", Run: exporterMissing,
		Fault: "A node with GPUs has no ready exporter, none that Prometheus scrapes, or one with stale values.",
		Means: "The allocation of its GPUs is unknown: it is not scaled down, repartitioned or reclaimed, and its pods have no GPU signals.",
		Looks: []Source{Deployments, DaemonSets, Nodes, Pods, GPUNodes, SamplesOld},
	},
	{
		ID: "prof-absent", Title: "GPUs have a busy ratio", Run: profAbsent,
		Fault: "GPUs have no busy ratio: the profiling counters cannot be read.",
		Means: "`gpu_busy` has no value, HPAs on it do not scale, and idle GPUs are not recognized.",
		Looks: []Source{GPUNodes, BusyMissing, Deployments, DaemonSets},
	},
	{
		ID: "attribution-stale", Title: "Exporters know allocations", Run: attributionStale,
		Fault: "The kubelet's pod resources have not been read for five minutes, or are not read at all.",
		Means: "GPUs are shown with their allocation at that time, or without any.",
		Looks: []Source{GPUNodes, AttributionOld, AttributionFailed, AttributionNone, Deployments, DaemonSets},
	},
	{
		ID: "honor-labels", Title: "GPU series keep the pod's namespace and name", Run: honorLabels,
		Fault: "Two scrape configurations disagree about `honor_labels`, or `exported_*` labels are dropped, so that GPUs seem allocated to the exporter itself.",
		Means: "GPUs are counted towards the exporter's namespace, or twice under two names.",
		Looks: []Source{LabelsMoved, LabelsPlain, LabelsSelf, Monitoring},
	},
	{
		ID: "scraped-twice", Title: "Each GPU is exported once", Run: scrapedTwice,
		Fault: "The same GPU comes from two targets.",
		Means: "Sums of users' own queries count GPUs twice. The adapter takes the larger of two; boards and reports merge by GPU.",
		Looks: []Source{GPUNodes, GPUsTwice, Monitoring},
	},
	{
		ID: "two-exporters", Title: "One exporter per node", Run: twoExporters,
		Fault: "NVIDIA's dcgm-exporter and ours run on one node.",
		Means: "On many GPUs only one of them can read profiling counters; repartitions wait until both release the GPU.",
		Looks: []Source{DaemonSets, Pods},
	},
	{
		ID: "clock-skew", Title: "Clocks agree", Run: clockSkew,
		Fault: "The clocks of the API server, of Prometheus, or of a GPU node differ by more than 5 s.",
		Means: "Samples look older than they are: signals go missing, Leases are lost, ages in reports are wrong.",
		Looks: []Source{Clock, Nodes, NodeLeases},
	},
	{
		ID: "recording-rules-missing", Title: "Prometheus has the recording rules", Run: rulesMissing,
		Fault: "GPUs are scraped, and the recording rules have no series.",
		Means: "Boards are empty where they read rules.",
		Looks: []Source{GPUNodes, Builds, Recorded, Deployments, DaemonSets, Monitoring},
	},
	{
		ID: "retention-short", Title: "Prometheus keeps a report's window", Run: retentionShort,
		Fault: "Prometheus keeps less than the 30 days of a report's usual window.",
		Means: "The report has gaps and notes them; older data is lost.",
		Looks: []Source{Retention, GPUNodes},
	},
}

func scrapeMissing(l *look) {
	builds, known := l.answer(Builds)
	if !known {
		return
	}
	l.use(TargetsDown)
	found := false
	for _, name := range []string{"exporter", "adapter", "autoscaler"} {
		programs := l.programs(name)
		if len(programs) == 0 {
			continue
		}
		found = true
		scraped := slices.ContainsFunc(builds, func(s sample) bool { return s.Labels.Get("program") == name && s.Value > 0 })
		if scraped || programs[0].Kind == "Deployment" && programs[0].Wanted == 0 {
			continue
		}
		p := programs[0]
		seen := fmt.Sprintf("gpuscale_%s_build_info has no series", name)
		if down := l.down(name); len(down) > 0 {
			seen += "; down: " + named(down)
		} else if l.has(TargetsDown) {
			seen += ", and no target of job gpuscale-" + name + " is down: Prometheus has no such target"
		}
		l.fault(Finding{
			Object: p.Object(), Seen: seen,
			Means: map[string]string{
				"exporter":   "no GPU is known: boards are empty, GPU signals are missing, no GPU is repartitioned and no node scaled down",
				"adapter":    "the values that HPAs get are not recorded, and its alerts cannot fire",
				"autoscaler": "the report has no demand and no pools, and alerts about the autoscaler cannot fire",
			}[name],
			Fix: "Have Prometheus scrape it: monitoring.scrape of the chart, and labels (monitoring.labels) that your Prometheus picks monitors by.",
			Commands: []string{
				l.operator("-n", p.Namespace, "get", "servicemonitors,podmonitors", "--show-labels"),
				l.operator("get", "prometheuses", "-A", "-o", `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.serviceMonitorSelector} {.spec.podMonitorSelector}{"\n"}{end}`),
				l.monitor(p),
			},
		})
	}
	if !found {
		l.skip("no program of gpuscale to scrape was found")
	}
}

// down are targets of a program that do not answer.
func (l *look) down(name string) []string {
	var out []string
	for _, s := range l.f.Answers[TargetsDown] {
		if s.Labels.Get("job") == "gpuscale-"+name {
			out = append(out, s.Labels.Get("instance"))
		}
	}
	return out
}

// monitor writes the command that has the Prometheus Operator scrape our programs.
func (l *look) monitor(p Program) string {
	if l.operator("get") == "" {
		return ""
	}
	return l.install(p, "", "monitoring.scrape=ServiceMonitor")
}
