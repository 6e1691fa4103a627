package doctor

import (
	"fmt"
	"slices"
)

var scrapeChecks = []Check{
	{
		ID: "scrape-missing", Title: "Prometheus scrapes our programs", Run: scrapeMissing,
		Fault: "A program is installed, and Prometheus has no target of it that is up.",
		Means: "What it knows reaches nobody: boards and reports are empty, HPAs and the autoscaler know nothing of cards.",
		Looks: []Source{Deployments, DaemonSets, Builds, TargetsDown, Monitoring},
	},
	{
		ID: "scrape-slow", Title: "Exporters are scraped often enough", Run: scrapeSlow,
		Fault: "Exporters are scraped more seldom than the adapter's `maxAge` needs: once in two thirds of it.",
		Means: "Between two scrapes signals have no value, and HPAs hold still.",
		Looks: []Source{CardNodes, Scrapes, Deployments, DaemonSets, ConfigMaps, Monitoring},
	},
	{
		ID: "exporter-missing", Title: "Every GPU node has an exporter with fresh values", Run: exporterMissing,
		Fault: "A node with cards has no ready exporter, none that Prometheus knows, or one whose values are old.",
		Means: "Nobody knows who holds its cards: it is not given back, cut or reclaimed, and its pods have no GPU signals.",
		Looks: []Source{Deployments, DaemonSets, Nodes, Pods, CardNodes, SamplesOld},
	},
	{
		ID: "prof-absent", Title: "Cards say how busy they are", Run: profAbsent,
		Fault: "Cards are there, and their busy ratio is not: the profiling counters cannot be read.",
		Means: "`gpu_busy` has no value, HPAs on it hold still, and idle cards cannot be told from busy ones.",
		Looks: []Source{CardNodes, BusyMissing, Deployments, DaemonSets},
	},
	{
		ID: "attribution-stale", Title: "Exporters know who holds what", Run: attributionStale,
		Fault: "The kubelet's pod resources have not been read for five minutes, or are not read at all.",
		Means: "Cards are shown as held by whoever held them then, or by nobody.",
		Looks: []Source{CardNodes, AttributionOld, AttributionFailed, AttributionNone, Deployments, DaemonSets},
	},
	{
		ID: "honor-labels", Title: "Holders keep their namespace and pod", Run: honorLabels,
		Fault: "Two scrape configurations disagree about `honor_labels`, or `exported_*` labels are dropped, so that the exporter itself looks like the holder.",
		Means: "Cards are counted towards the exporter's namespace, or twice under two names.",
		Looks: []Source{HoldersMoved, HoldersPlain, HoldersSelf, Monitoring},
	},
	{
		ID: "scraped-twice", Title: "Each card is told of once", Run: scrapedTwice,
		Fault: "The same card comes from two targets.",
		Means: "Sums of users' own queries count cards twice. The adapter takes the larger of two; boards and reports merge by card.",
		Looks: []Source{CardNodes, CardsTwice, Monitoring},
	},
	{
		ID: "two-exporters", Title: "One exporter a node", Run: twoExporters,
		Fault: "NVIDIA's dcgm-exporter and ours run on one node, or ours twice, of two releases.",
		Means: "Profiling counters can be had by one of them only, on many cards; repartitions wait for both to let go.",
		Looks: []Source{Deployments, DaemonSets, Pods},
	},
	{
		ID: "kube-state-metrics", Title: "Series of kube-state-metrics are there for who asks for them", Run: kubeState,
		Fault: "An HPA asks for a metric whose name begins with `kube_`, and Prometheus has no series of kube-state-metrics. No board, rule, alert, signal or report of gpuscale needs any.",
		Means: "That HPA does not scale.",
		Looks: []Source{HPAs, KubeState},
	},
	{
		ID: "clock-skew", Title: "Clocks agree", Run: clockSkew,
		Fault: "The clocks of the API server, of Prometheus, or of a GPU node differ by more than 5 s.",
		Means: "Samples look older than they are: signals go missing, leases are lost, ages in reports are wrong.",
		Looks: []Source{Clock, Nodes, NodeLeases},
	},
	{
		ID: "recording-rules-missing", Title: "Prometheus has the recording rules", Run: rulesMissing,
		Fault: "Cards are scraped, and what the recording rules make of them is not there.",
		Means: "Boards are empty where they read rules.",
		Looks: []Source{CardNodes, Builds, Recorded, Deployments, DaemonSets, Monitoring},
	},
	{
		ID: "retention-short", Title: "Prometheus keeps what a report looks back on", Run: retentionShort,
		Fault: "Prometheus keeps less than the 30 days of a report's usual window.",
		Means: "The report has holes and says so; what came before is gone.",
		Looks: []Source{Retention, CardNodes},
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
			seen += ", and no target of job gpuscale-" + name + " is down: Prometheus does not know of it"
		}
		l.fault(Finding{
			Object: p.Object(), Seen: seen,
			Means: map[string]string{
				"exporter":   "nobody knows of any card: boards are empty, GPU signals are missing, no card is cut and no node given back",
				"adapter":    "what HPAs are told, and why not, is seen by nobody, and its alerts cannot fire",
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
		l.skip("no program of gpuscale that could be scraped was found")
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
