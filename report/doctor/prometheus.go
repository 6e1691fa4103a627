package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

// skews that are worth a word, and that break something.
const (
	skewed = 5 * time.Second
	broken = 30 * time.Second
)

func clockSkew(l *look) {
	if l.f.Now.IsZero() {
		l.cannot("the API server did not say what time it is")
		return
	}
	if d := l.f.Now.Sub(l.f.Local); d.Abs() > skewed {
		l.warn(Finding{Object: "This machine", Seen: fmt.Sprintf("its clock is %s the API server's", behind(-d)),
			Means: "ages that are told here are off; nothing in the cluster is", Fix: "Set the clock of this machine (NTP)."})
	}
	v, known := l.answer(Clock)
	if known && len(v) > 0 && v[0].Value > 0 && v[0].Value < 1e11 {
		at := time.UnixMilli(int64(v[0].Value * 1000))
		l.skew("Prometheus", at.Sub(l.f.Asked)-l.f.Now.Sub(l.f.Local), "samples look older, or younger, than they are: the adapter drops those beyond maxAge, and HPAs hold still")
	}
	l.nodeClocks()
}

// skew adds a finding where a clock is off.
func (l *look) skew(object string, ahead time.Duration, means string) {
	if ahead.Abs() <= skewed {
		return
	}
	f := Finding{Object: object, Seen: fmt.Sprintf("its clock is %s the API server's", behind(ahead)), Means: means, Fix: "Set the clock there (NTP, chrony)."}
	if ahead.Abs() > broken {
		l.fault(f)
	} else {
		l.warn(f)
	}
}

func behind(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).Round(time.Second).String() + " behind"
	}
	return ahead.Round(time.Second).String() + " ahead of"
}

// nodeClocks reads the kubelets' clocks out of their leases, which they write every
// ten seconds. One that is ahead is certain; one that is behind cannot be told from a
// kubelet that is late, so only what no ready node could be is reported.
func (l *look) nodeClocks() {
	nodes := l.nodes()
	if !l.use(NodeLeases) {
		return
	}
	gpu := map[string]bool{}
	for i := range nodes {
		if n := &nodes[i]; isGPU(n) && isReady(n) {
			gpu[n.Name] = true
		}
	}
	for i := range l.f.NodeLeases {
		lease := &l.f.NodeLeases[i]
		if lease.Spec.RenewTime == nil || !gpu[lease.Name] {
			continue
		}
		if ahead := lease.Spec.RenewTime.Sub(l.f.Now.Add(l.f.Took)); ahead > skewed {
			l.skew("Node "+lease.Name, ahead, "its exporter's times are of the future, and leases that its pods hold last longer than others believe")
		}
	}
}

// rules that are there wherever cards, or the autoscaler, are. TestRules holds them
// against the rules themselves.
var cardRules = []string{"model:gpu_info:count", "node:gpu_info:count"}

const poolRule = "cluster:gpuscale_gpus:sum"

func rulesMissing(l *look) {
	if l.noCards() {
		return
	}
	v, known := l.answer(Recorded)
	builds, scraped := l.answer(Builds)
	if !known {
		return
	}
	wanted := slices.Clone(cardRules)
	if scraped && slices.ContainsFunc(builds, func(s sample) bool { return s.Labels.Get("program") == "autoscaler" }) {
		wanted = append(wanted, poolRule)
	}
	missing := slices.DeleteFunc(wanted, func(rule string) bool {
		return slices.ContainsFunc(v, func(s sample) bool { return s.Labels.Get("rule") == rule })
	})
	if len(missing) == 0 {
		return
	}
	f := Finding{
		Object: "Prometheus", Seen: "no series of " + named(missing),
		Means: "boards are empty where they read recording rules; reports and HPAs need none",
		Fix:   "Install the PrometheusRule with labels that your Prometheus picks rules by (monitoring.labels), or give it dashboards/rules/gpuscale-recording.yaml.",
	}
	for _, name := range names {
		if programs := l.programs(name); len(programs) > 0 {
			f.Commands = []string{l.rules(programs[0]), l.operator("-n", programs[0].Namespace, "get", "prometheusrules", "--show-labels")}
			break
		}
	}
	l.warn(f)
}

// rules writes the command that installs the recording rules; only the chart can, and
// only for the Prometheus Operator.
func (l *look) rules(p Program) string {
	if l.operator("get") == "" || p.Annotations[helmRelease] == "" {
		return ""
	}
	return l.install(p, "", "monitoring.rules.recording=true")
}

// window of a report.
const window = 30 * 24 * time.Hour

func retentionShort(l *look) {
	if l.noCards() || !l.use(Retention) {
		return
	}
	if l.f.Retention == "" {
		l.cannot("the server does not say how long it keeps what it has (only Prometheus itself does)")
		return
	}
	keeps, sized, err := parseRetention(l.f.Retention)
	switch {
	case err != nil:
		l.cannot("storageRetention %q: %v", Clean(l.f.Retention, maxName), err)
	case keeps > 0 && keeps < window:
		l.warn(Finding{
			Object: "Prometheus", Seen: "storageRetention is " + l.f.Retention,
			Means: fmt.Sprintf("a report over the usual 30 days has a record of %s, says so and exits with 3", days(keeps)),
			Fix:   "Keep at least 30 days (--storage.tsdb.retention.time, or spec.retention of the Prometheus resource), or ask for less: gpuscale-report --since " + days(keeps) + ".",
		})
	case sized && keeps == 0:
		l.cannot("storageRetention %q is a size: how many days that is depends on how much comes in", Clean(l.f.Retention, maxName))
	}
}

// days writes a retention as --since takes it.
func days(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	}
	return strconv.FormatFloat(d.Hours(), 'f', -1, 64) + "h"
}

// parseRetention reads Prometheus' own words: "15d", "1y2w", "30d or 512GiB", "10GiB".
// keeps is 0 where no time is given; sized says that a size is.
func parseRetention(text string) (keeps time.Duration, sized bool, err error) {
	for part := range strings.SplitSeq(text, " or ") {
		part = strings.TrimSpace(part)
		if strings.HasSuffix(part, "B") {
			sized = true
			continue
		}
		d, err := prometheusDuration(part)
		if err != nil {
			return 0, false, err
		}
		keeps = d
	}
	return keeps, sized, nil
}

// units of a duration as Prometheus writes it, the largest first.
var units = []struct {
	name string
	of   time.Duration
}{{"y", 365 * 24 * time.Hour}, {"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}

func prometheusDuration(text string) (time.Duration, error) {
	rest, sum := text, time.Duration(0)
	for _, u := range units {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		after := rest[len(digits):]
		if digits == "" || !strings.HasPrefix(after, u.name) || strings.HasPrefix(after, "ms") {
			continue
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n > int((1<<62)/u.of) {
			return 0, fmt.Errorf("%q: is too long", text)
		}
		sum += time.Duration(n) * u.of
		if sum < 0 {
			return 0, fmt.Errorf("%q: is too long", text)
		}
		rest = after[len(u.name):]
	}
	if rest != "" || text == "" {
		return 0, fmt.Errorf("%q: want a duration such as 30d", text)
	}
	return sum, nil
}
