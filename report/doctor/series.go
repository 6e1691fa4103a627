package doctor

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gpuscale/gpuscale/internal/prom"
)

type sample = prom.Sample

// perNode adds a finding for each node of an answer, at most maxFindings matter.
func (l *look) perNode(v prom.Vector, add func(Finding), f func(sample) Finding) {
	for _, s := range v {
		one := f(s)
		if one.Object == "" {
			one.Object = "Node " + s.Labels.Get("node")
		}
		add(one)
	}
}

func (l *look) noCards() bool {
	v, known := l.answer(CardNodes)
	if known && len(v) == 0 {
		l.skip("Prometheus has no series of a card")
	}
	return !known || len(v) == 0
}

func profAbsent(l *look) {
	if l.noCards() {
		return
	}
	v, _ := l.answer(BusyMissing)
	exporters := l.programs("exporter")
	l.perNode(v, l.fault, func(s sample) Finding {
		f := Finding{
			Seen:  fmt.Sprintf("gpu_info or gpu_instance_info has %s cards or instances without a busy ratio", number(s.Value)),
			Means: "gpu_busy has no value for who holds them, HPAs on it hold still, and idle cards cannot be told from busy ones",
			Fix:   "Profiling counters need SYS_ADMIN before Hopper, and one reader only: set exporter.profiling, and see that no other monitor (dcgm-exporter, Nsight) holds them.",
		}
		if len(exporters) > 0 {
			p := exporters[0]
			f.Commands = []string{l.install(p, "exporter.yaml", "exporter.profiling=true"), l.in(p.Namespace, "logs", p.Ref(), "--tail=50")}
		}
		return f
	})
}

func attributionStale(l *look) {
	if l.noCards() {
		return
	}
	exporters := l.programs("exporter")
	var logs []string
	if len(exporters) > 0 {
		logs = []string{l.in(exporters[0].Namespace, "logs", exporters[0].Ref(), "--tail=50")}
	}
	old, _ := l.answer(AttributionOld)
	l.perNode(old, l.fault, func(s sample) Finding {
		return Finding{Seen: fmt.Sprintf("gpu_attribution_age_seconds is %s", whole(s.Value)),
			Means: "cards are shown as held by whoever held them then; pods that came later have no GPU signals",
			Fix:   "See why the kubelet's pod-resources socket does not answer the exporter there.", Commands: logs}
	})
	failed, _ := l.answer(AttributionFailed)
	l.perNode(failed, l.warn, func(s sample) Finding {
		return Finding{Object: "Target " + s.Labels.Get("instance"), Seen: fmt.Sprintf("the kubelet has not said who holds what so far: about %s failures in 15 minutes (gpuscale_exporter_attribution_errors_total), and no gpu_attribution_age_seconds", number(s.Value)),
			Means: "while that lasts nobody knows who holds the node's cards", Fix: "See what the exporter says of the kubelet's pod-resources socket.", Commands: logs}
	})
	none, _ := l.answer(AttributionNone)
	l.perNode(none, l.warn, func(sample) Finding {
		f := Finding{Seen: "gpu_info has series of this node, and gpu_attribution_age_seconds has none: its exporter does not ask the kubelet",
			Means: "nobody knows who holds its cards: no GPU signals for pods, nothing is cut, reclaimed or given back",
			Fix:   "Run the exporter with --kubernetes, which exporter.attribution of the chart does."}
		if len(exporters) > 0 {
			f.Commands = []string{l.install(exporters[0], "exporter-node.yaml", "exporter.attribution=true")}
		}
		return f
	})
}

// number writes a count as Prometheus has it, without digits that nobody reads.
func number(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

// jobs of an answer.
func jobs(v prom.Vector) []string {
	var out []string
	for _, s := range v {
		if j := s.Labels.Get("job"); j != "" && !slices.Contains(out, j) {
			out = append(out, j)
		}
	}
	slices.Sort(out)
	return out
}

func honorLabels(l *look) {
	moved, a := l.answer(HoldersMoved)
	plain, b := l.answer(HoldersPlain)
	self, c := l.answer(HoldersSelf)
	if a && b && c && len(moved)+len(plain)+len(self) == 0 {
		l.skip("Prometheus has no series of a holder")
		return
	}
	look := l.operator("get", "servicemonitors,podmonitors", "-A", "-o", `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.endpoints} {.spec.podMetricsEndpoints}{"\n"}{end}`)
	for _, s := range self {
		pod := s.Labels.Get("namespace") + "/" + s.Labels.Get("pod")
		l.fault(Finding{
			Object: "scrape job " + s.Labels.Get("job"),
			Seen:   fmt.Sprintf("gpu_held says that %s holds %s cards: that is the exporter itself, and exported_namespace and exported_pod are gone", pod, number(s.Value)),
			Means:  "every card looks as if the exporter held it: pods have no GPU signals, teams no hours, quotas no use",
			Fix:    "Take the relabelling that drops exported_* labels out of this job (metricRelabelings with labeldrop), or set honorLabels: true for it.",
			Commands: []string{
				look,
			},
		})
	}
	if len(moved) > 0 && len(plain) > 0 {
		l.fault(Finding{
			Object: "scrape jobs " + named(append(jobs(moved), jobs(plain)...)),
			Seen:   fmt.Sprintf("holders are exported_namespace in %s and namespace in %s (gpu_held)", named(jobs(moved)), named(jobs(plain))),
			Means:  "one reader of these series sees the holders of one half only, and the exporter in the other",
			Fix:    "Give all jobs that scrape exporters the same honor_labels: true in each, or in none.",
			Commands: []string{
				look,
			},
		})
	}
}

func scrapedTwice(l *look) {
	if l.noCards() {
		return
	}
	v, known := l.answer(CardsTwice)
	if !known || len(v) == 0 {
		return
	}
	all := jobs(v)
	f := Finding{
		Means:    "sums over cards in queries of your own count them twice; the adapter, boards and reports merge by card",
		Fix:      "Have each exporter scraped by one job: take this one, or its target, away; the prometheus.io/scrape annotation beside a monitor is a usual reason.",
		Commands: []string{l.operator("get", "servicemonitors,podmonitors", "-A")},
	}
	if len(all) == 1 {
		f.Object, f.Seen = "scrape job "+all[0], "has the same gpu_uuid from several targets: "+named(instances(v, all[0]))
		f.Fix = "Two replicas of Prometheus behind one address (ask Thanos with --parameter dedup=true), or two exporters on one node."
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
			f.Seen = fmt.Sprintf("has the same gpu_uuid as job %s: from %s", keep, named(instances(v, job)))
			l.warn(f)
		}
	}
}

// instances of a job in an answer.
func instances(v prom.Vector, job string) []string {
	var out []string
	for _, s := range v {
		if s.Labels.Get("job") == job {
			out = append(out, s.Labels.Get("instance"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
