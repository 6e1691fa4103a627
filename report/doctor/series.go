package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/internal/prom"
)

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
