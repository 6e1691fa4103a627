package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/prom"
)

var scrapeChecks = []Check{
	{
		ID: "scrape-missing", Title: "Prometheus scrapes our programs", Run: scrapeMissing,
		Fault: "A program is installed, and Prometheus has no healthy target of it.",
		Means: "Its metrics are lost: boards and reports are empty, HPAs and the autoscaler have no GPU metrics.",
		Looks: []*Source{Deployments, DaemonSets, Builds}, Also: []*Source{TargetsDown}, May: []*Source{Monitoring},
	},
	{
		ID: "exporter-missing", Title: "Every GPU node has an exporter with fresh values", Run: exporterMissing,
		Fault: "A node with GPUs has no ready exporter, none that Prometheus scrapes, or one with stale values.",
		Means: "The allocation of its GPUs is unknown: it is not scaled down, repartitioned or reclaimed, and its pods have no GPU signals.",
		Looks: []*Source{Nodes}, Also: []*Source{Deployments, DaemonSets, Pods, GPUNodes, SamplesOld},
	},
	{
		ID: "prof-absent", Title: "GPUs have a busy ratio", Run: profAbsent,
		Fault: "GPUs have no busy ratio: the profiling counters cannot be read.",
		Means: "`gpu_busy` has no value, HPAs on it do not scale, and idle GPUs are not recognized.",
		Looks: []*Source{GPUNodes, BusyMissing}, Also: []*Source{Deployments, DaemonSets},
	},
	{
		ID: "attribution-stale", Title: "Exporters know allocations", Run: attributionStale,
		Fault: "The kubelet's pod resources have not been read for five minutes, or are not read at all.",
		Means: "GPUs are shown with their allocation at that time, or without any.",
		Looks: []*Source{GPUNodes}, Also: []*Source{AttributionOld, AttributionFailed, AttributionNone, Deployments, DaemonSets},
	},
	{
		ID: "honor-labels", Title: "GPU series keep the pod's namespace and name", Run: honorLabels,
		Fault: "Two scrape configurations disagree about `honor_labels`, or `exported_*` labels are dropped, so that GPUs seem allocated to the exporter itself.",
		Means: "GPUs are counted towards the exporter's namespace, or twice under two names.",
		Looks: []*Source{LabelsMoved, LabelsPlain, LabelsSelf}, May: []*Source{Monitoring},
	},
	{
		ID: "scraped-twice", Title: "Each GPU is exported once", Run: scrapedTwice,
		Fault: "The same GPU comes from two targets.",
		Means: "Sums of users' own queries count GPUs twice. The adapter takes the larger of two; boards and reports merge by GPU.",
		Looks: []*Source{GPUNodes, GPUsTwice}, May: []*Source{Monitoring},
	},
	{
		ID: "two-exporters", Title: "One exporter per node", Run: twoExporters,
		Fault: "NVIDIA's dcgm-exporter and ours run on one node.",
		Means: "On many GPUs only one of them can read profiling counters; repartitions wait until both release the GPU.",
		Looks: []*Source{DaemonSets, Pods},
	},
	{
		ID: "clock-skew", Title: "Clocks agree", Run: clockSkew,
		Fault: "The clocks of the API server, of Prometheus, or of a GPU node differ by more than 5 s.",
		Means: "Samples look older than they are: signals go missing, Leases are lost, ages in reports are wrong.",
		Also:  []*Source{Clock, Nodes, NodeLeases},
	},
	{
		ID: "recording-rules-missing", Title: "Prometheus has the recording rules", Run: rulesMissing,
		Fault: "GPUs are scraped, and the recording rules have no series.",
		Means: "Boards are empty where they read rules.",
		Looks: []*Source{GPUNodes, Builds, Recorded}, May: []*Source{Deployments, DaemonSets, Monitoring},
	},
	{
		ID: "retention-short", Title: "Prometheus keeps a report's window", Run: retentionShort,
		Fault: "Prometheus keeps less than the 30 days of a report's usual window.",
		Means: "The report has gaps and notes them; older data is lost.",
		Looks: []*Source{Retention, GPUNodes},
	},
}

// scraped reports whether Prometheus has series of a program.
func (f *Facts) scraped(program string) bool {
	return slices.ContainsFunc(f.Answers[Builds], func(s sample) bool { return s.Labels.Get("program") == program && s.Value > 0 })
}

// unscraped is what the lack of a program's series means.
var unscraped = map[string]string{
	"exporter":   "no GPU is known: boards are empty, GPU signals are missing, no GPU is repartitioned and no node scaled down",
	"adapter":    "the values that HPAs get are not recorded, and its alerts cannot fire",
	"autoscaler": "the report has no demand and no pools, and alerts about the autoscaler cannot fire",
}

func scrapeMissing(l *look) {
	var found []Program
	for _, name := range []string{"exporter", "adapter", "autoscaler"} {
		programs := l.programs(name)
		if found = append(found, programs...); len(programs) == 0 {
			continue
		}
		p := programs[0]
		if l.f.scraped(name) || p.Kind == "Deployment" && p.Wanted == 0 {
			continue
		}
		seen := fmt.Sprintf("gpuscale_%s_build_info has no series", name)
		var down []string
		for _, s := range l.f.Answers[TargetsDown] {
			if s.Labels.Get("job") == "gpuscale-"+name {
				down = append(down, s.Labels.Get("instance"))
			}
		}
		if len(down) > 0 {
			seen += "; down: " + several(down)
		} else if l.has(TargetsDown) {
			seen += ", and no target of job gpuscale-" + name + " is down: Prometheus has no such target"
		}
		l.fault(Finding{
			Object: p.Object(), Seen: seen, Means: unscraped[name],
			Fix: "Have Prometheus scrape it: monitoring.scrape of the chart, and labels (monitoring.labels) that your Prometheus picks monitors by.",
		}, l.operator("-n", p.Namespace, "get", "servicemonitors,podmonitors", "--show-labels"), l.operator("get", "prometheuses", "-A", "-o", `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.serviceMonitorSelector} {.spec.podMonitorSelector}{"\n"}{end}`), l.monitored(p, "monitoring.scrape=ServiceMonitor"))
	}
	orSkip(l, found, "no program of gpuscale to scrape was found")
}

// monitored writes the command that has the Prometheus Operator scrape our programs, or
// evaluate our rules.
func (l *look) monitored(p Program, value string) string {
	if l.operator("get") == "" {
		return ""
	}
	return l.install(p, "", value)
}

// rules with series wherever GPUs, or the autoscaler, are. TestSeries compares them with
// the rules themselves.
const (
	gpuRule  = "node:gpu_info:count"
	poolRule = "pool:gpuscale_capacity_gpu_seconds:rate5m"
)

func rulesMissing(l *look) {
	wanted := []string{gpuRule}
	if slices.Contains(values(l.f.Answers[Builds], "program", ""), "autoscaler") {
		wanted = append(wanted, poolRule)
	}
	recorded := values(l.f.Answers[Recorded], "rule", "")
	missing := slices.DeleteFunc(wanted, func(rule string) bool { return slices.Contains(recorded, rule) })
	if len(missing) == 0 {
		return
	}
	f := Finding{
		Object: "Prometheus", Seen: "no series of " + several(missing),
		Fix: "Install the PrometheusRule with labels that your Prometheus picks rules by (monitoring.labels), or give it deploy/chart/gpuscale/files/recording.yaml.",
	}
	for _, name := range names {
		if programs := l.programs(name); len(programs) > 0 {
			f.Commands = []string{l.monitored(programs[0], "monitoring.rules.recording=true"), l.operator("-n", programs[0].Namespace, "get", "prometheusrules", "--show-labels")}
			break
		}
	}
	l.warn(f)
}

// window of a report.
const window = 30 * 24 * time.Hour

func retentionShort(l *look) {
	if l.f.Retention == "" {
		l.skip("only Prometheus itself reports its retention, and this server is another")
		return
	}
	keeps, sized, err := parseRetention(l.f.Retention)
	switch {
	case err != nil:
		l.cannot("storageRetention %q: %v", Clean(l.f.Retention, maxName), err)
	case keeps > 0 && keeps < window:
		l.warn(Finding{
			Object: "Prometheus", Seen: "storageRetention is " + l.f.Retention,
			Means: fmt.Sprintf("a report over the usual 30 days has a record of %s, notes it and exits with 3", model.Duration(keeps).String()),
			Fix:   "Keep at least 30 days (--storage.tsdb.retention.time, or spec.retention of the Prometheus resource), or report on less: gpuscale-report --since " + model.Duration(keeps).String() + ".",
		})
	case sized && keeps == 0:
		l.cannot("storageRetention %q is a size: the days depend on the ingestion rate", Clean(l.f.Retention, maxName))
	}
}

// parseRetention reads Prometheus' retention: "15d", "1y2w", "30d or 512GiB or 80%", "10GiB".
// keeps is 0 where no time is given; sized reports a size, or a share of the disk.
func parseRetention(text string) (keeps time.Duration, sized bool, err error) {
	for part := range strings.SplitSeq(text, " or ") {
		part = strings.TrimSpace(part)
		if strings.HasSuffix(part, "B") || strings.HasSuffix(part, "%") {
			sized = true
			continue
		}
		d, err := model.ParseDuration(part)
		if err != nil {
			return 0, false, err
		}
		keeps = time.Duration(d)
	}
	return keeps, sized, nil
}

// skews that are reported, and that are faults.
const (
	skewed = 5 * time.Second
	broken = 30 * time.Second
)

func clockSkew(l *look) {
	if l.f.Now.IsZero() {
		l.cannot("the API server reported no time")
		return
	}
	local := l.f.Now.Sub(l.f.Local)
	if local.Abs() > skewed {
		l.warn(Finding{Object: "This machine", Seen: fmt.Sprintf("its clock is %s the API server's", behind(-local)),
			Means: "ages in this report are wrong; the cluster is not affected", Fix: "Set the clock of this machine (NTP)."})
	}
	if at, known := l.f.moment(Clock); known {
		l.skew("Prometheus", at.Sub(l.f.Asked)-local, "samples look older, or younger, than they are: the adapter drops those beyond maxAge, and HPAs do not scale")
	}
	// Kubelets renew their Leases every ten seconds by their own clocks. One that is ahead is
	// certain; one that is behind may be a late renewal, and is not reported.
	for _, n := range l.f.Nodes {
		lease := find(l.f.NodeLeases, "kube-node-lease", n.Name)
		if lease == nil || lease.Spec.RenewTime == nil || !isGPU(n) || !kube.NodeReady(n) {
			continue
		}
		if ahead := lease.Spec.RenewTime.Sub(l.f.Now.Add(l.f.Took)); ahead > skewed {
			l.skew("Node "+n.Name, ahead, "its exporter's times are in the future, and Leases held by its pods last longer than others assume")
		}
	}
}

// moment is the time that an answer of one sample has; known is false where it has none.
func (f *Facts) moment(s *Source) (at time.Time, known bool) {
	v := f.Answers[s]
	if len(v) == 0 || !(v[0].Value > 0) || v[0].Value > 1e11 {
		return at, false
	}
	return time.UnixMilli(int64(v[0].Value * 1000)), true
}

// skew adds a finding for a wrong clock.
func (l *look) skew(object string, ahead time.Duration, means string) {
	f := Finding{Object: object, Seen: fmt.Sprintf("its clock is %s the API server's", behind(ahead)), Means: means, Fix: "Set the clock there (NTP, chrony)."}
	switch {
	case ahead.Abs() > broken:
		l.fault(f)
	case ahead.Abs() > skewed:
		l.warn(f)
	}
}

func behind(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).Round(time.Second).String() + " behind"
	}
	return ahead.Round(time.Second).String() + " ahead of"
}

// perNode adds a finding for each node of an answer.
func (l *look) perNode(source *Source, add func(Finding, ...string), f func(sample) Finding, commands ...string) {
	for _, s := range l.f.Answers[source] {
		one := f(s)
		one.Object = cmp.Or(one.Object, "Node "+s.Labels.Get("node"))
		add(one, commands...)
	}
}

func profAbsent(l *look) {
	var commands []string
	if exporters := l.programs("exporter"); len(exporters) > 0 {
		commands = []string{l.install(exporters[0], "exporter.yaml", "exporter.profiling=true"), l.logs(exporters[0])}
	}
	l.perNode(BusyMissing, l.fault, func(s sample) Finding {
		return Finding{
			Seen:  fmt.Sprintf("gpu_info or gpu_instance_info has %s GPUs or instances without a busy ratio", number(s.Value)),
			Means: "gpu_busy has no value for their pods, HPAs on it do not scale, and idle GPUs are not recognized",
			Fix:   "Profiling counters need SYS_ADMIN before Hopper, and one reader only: set exporter.profiling, and check that no other monitor (dcgm-exporter, Nsight) uses them.",
		}
	}, commands...)
}

func namespaceLimits(l *look) {
	for _, s := range l.f.Answers[LimitsExceeded] {
		namespace := cmp.Or(s.Labels.Get("exported_namespace"), s.Labels.Get("namespace"))
		l.warn(Finding{
			Object: "Namespace " + namespace, Seen: fmt.Sprintf("it exceeds the limit %s: %s pods", s.Labels.Get("reason"), number(s.Value)),
			Means: "these are not planned for, or with disruption_budgets not evicted",
			Fix:   "Find what creates them; a ResourceQuota bounds it (docs/security.md has the limits).",
		}, l.in(namespace, "get", "pods", "--field-selector=status.phase=Pending"), l.in(namespace, "get", "poddisruptionbudgets"))
	}
}

func attributionStale(l *look) {
	logs, install := "", ""
	if exporters := l.programs("exporter"); len(exporters) > 0 {
		logs, install = l.logs(exporters[0]), l.install(exporters[0], "exporter-node.yaml", "exporter.attribution=true")
	}
	l.perNode(AttributionOld, l.fault, func(s sample) Finding {
		return Finding{Seen: fmt.Sprintf("gpu_attribution_age_seconds is %s", whole(s.Value)),
			Means: "GPUs are shown with their allocation at that time; later pods have no GPU signals",
			Fix:   "Check why the kubelet's pod-resources socket does not answer the exporter there."}
	}, logs)
	l.perNode(AttributionFailed, l.warn, func(s sample) Finding {
		return Finding{Object: "Target " + s.Labels.Get("instance"), Seen: fmt.Sprintf("allocations have not been read from the kubelet: about %s failures in 15 minutes (gpuscale_exporter_attribution_errors_total), and no gpu_attribution_age_seconds", number(s.Value)),
			Means: "meanwhile the allocation of the node's GPUs is unknown", Fix: "Check the exporter's log about the kubelet's pod-resources socket."}
	}, logs)
	l.perNode(AttributionNone, l.warn, func(sample) Finding {
		return Finding{Seen: "gpu_info has series of this node, and gpu_attribution_age_seconds has none: its exporter does not read the kubelet",
			Means: "the allocation of its GPUs is unknown: no GPU signals for pods, nothing is repartitioned, reclaimed or scaled down",
			Fix:   "Run the exporter with --kubernetes, which exporter.attribution of the chart does."}
	}, install)
}

// number formats a count of Prometheus, rounded.
func number(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

func honorLabels(l *look) {
	moved, plain, self := l.f.Answers[LabelsMoved], l.f.Answers[LabelsPlain], l.f.Answers[LabelsSelf]
	if len(moved)+len(plain)+len(self) == 0 {
		l.skip("Prometheus has no series of gpu_held")
		return
	}
	look := l.operator("get", "servicemonitors,podmonitors", "-A", "-o", `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.endpoints} {.spec.podMetricsEndpoints}{"\n"}{end}`)
	for _, s := range self {
		pod := s.Labels.Get("namespace") + "/" + s.Labels.Get("pod")
		l.fault(Finding{
			Object: "scrape job " + s.Labels.Get("job"),
			Seen:   fmt.Sprintf("gpu_held allocates to %s %s GPUs: that is the exporter itself, and exported_namespace and exported_pod are gone", pod, number(s.Value)),
			Means:  "every GPU seems allocated to the exporter: pods have no GPU signals, teams no hours, quotas no use",
			Fix:    "Remove the relabelling that drops exported_* labels from this job (metricRelabelings with labeldrop), or set honorLabels: true for it.",
		}, look)
	}
	if len(moved) > 0 && len(plain) > 0 {
		l.fault(Finding{
			Object: "scrape jobs " + several(append(values(moved, "job", ""), values(plain, "job", "")...)),
			Seen:   fmt.Sprintf("the pod's namespace is exported_namespace in %s and namespace in %s (gpu_held)", several(values(moved, "job", "")), several(values(plain, "job", ""))),
			Means:  "a query of these series finds the pods of one half only, and the exporter in the other",
			Fix:    "Give all jobs that scrape exporters the same honor_labels: true in each, or in none.",
		}, look)
	}
}

func scrapedTwice(l *look) {
	v := l.f.Answers[GPUsTwice]
	if len(v) == 0 {
		return
	}
	all := values(v, "job", "")
	f := Finding{
		Fix:      "Have each exporter scraped by one job: remove this one, or its target; the prometheus.io/scrape annotation beside a monitor is a usual reason.",
		Commands: []string{l.operator("get", "servicemonitors,podmonitors", "-A")},
	}
	if len(all) < 2 { // none where all series were pushed without a job
		job := strings.Join(all, "")
		f.Object, f.Seen = "scrape job "+cmp.Or(job, "without a name"), "has the same gpu_uuid from several targets: "+several(values(v, "instance", job))
		f.Fix = "Two replicas of Prometheus behind one address (query Thanos with --parameter dedup=true), or two exporters on one node."
		l.warn(f)
		return
	}
	// The job that alerts name is the one to keep.
	keep := all[0]
	if slices.Contains(all, "gpuscale-exporter") {
		keep = "gpuscale-exporter"
	}
	for _, job := range all {
		if job != keep {
			f.Object = "scrape job " + job
			f.Seen = fmt.Sprintf("has the same gpu_uuid as job %s: from %s", keep, several(values(v, "instance", job)))
			l.warn(f)
		}
	}
}

// values of a label in an answer, sorted, each once; of those of a job where it is named.
func values(v prom.Vector, label, job string) []string {
	var out []string
	for _, s := range v {
		if value := s.Labels.Get(label); value != "" && (job == "" || s.Labels.Get("job") == job) {
			out = append(out, value)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
