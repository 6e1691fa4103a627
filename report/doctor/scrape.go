package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/prom"
)

var scrapeChecks = []Check{
	{
		ID: "scrape-missing", Title: "Prometheus scrapes gpuscale's programs", Run: scrapeMissing,
		Fault: "A program is installed, but Prometheus has no healthy target of it, scrapes it less often than every two and a half minutes, or gives its series no label `namespace`.",
		Means: "Boards and reports are empty, and HPAs and the autoscaler get no GPU metrics.",
		Looks: from(Deployments, DaemonSets, Builds), Also: from(TargetsDown, WithoutNamespace, ScrapedRarely), May: from(Monitoring, MonitoringAlpha),
	},
	{
		ID: "exporter-missing", Title: "Every GPU node has an exporter with fresh values", Run: exporterMissing,
		Fault: "The exporter of a GPU node does not run, is not ready, is not scraped, or has stale values.",
		Means: "The allocation of the node's GPUs is unknown: the node is not scaled down, its GPUs are not repartitioned or reclaimed, and its pods have no GPU metrics.",
		Looks: from(Nodes), Also: from(Deployments, DaemonSets, Pods, GPUNodes, SamplesOld),
	},
	{
		ID: "prof-absent", Title: "GPUs have a busy ratio", Run: profAbsent,
		Fault: "GPUs have no busy ratio, because the exporter cannot read the profiling counters.",
		Means: "`gpu_busy` has no value: HPAs on this metric do not scale, and idle GPUs are not recognized.",
		Looks: from(GPUNodes, BusyMissing), Also: from(Deployments, DaemonSets), May: from(Pods),
	},
	{
		ID: "attribution-stale", Title: "Exporters know which pods have the GPUs", Run: attributionStale,
		Fault: "An exporter has not read the kubelet's pod resources for five minutes, or does not read them at all.",
		Means: "GPUs are shown with the pods of that time, or without pods.",
		Looks: from(GPUNodes), Also: from(AttributionOld, AttributionFailed, AttributionNone, Deployments, DaemonSets), May: from(Pods),
	},
	{
		ID: "honor-labels", Title: "GPU series keep the pod's namespace and name", Run: honorLabels,
		Fault: "Scrape jobs differ in `honor_labels`; or a job drops the labels `exported_*`, so that GPUs seem allocated to the exporter itself.",
		Means: "GPUs count for the namespace of the exporter, or twice under two names.",
		Looks: from(LabelsMoved, LabelsPlain, LabelsSelf), May: from(Monitoring),
	},
	{
		ID: "scraped-twice", Title: "Each GPU is exported once", Run: scrapedTwice,
		Fault: "Prometheus has the series of a GPU from two targets.",
		Means: "Sums in your own queries count the GPU twice. The adapter takes the larger value; boards and reports count the GPU once.",
		Looks: from(GPUNodes, GPUsTwice), May: from(Monitoring),
	},
	{
		ID: "two-exporters", Title: "Each GPU node has one exporter", Run: twoExporters,
		Fault: "NVIDIA's dcgm-exporter and gpuscale's exporter run on the same node.",
		Means: "On many GPU models only one of them can read the profiling counters, and a GPU is repartitioned only after both have released it.",
		Looks: from(DaemonSets, Pods),
	},
	{
		ID: "clock-skew", Title: "Clocks agree", Run: clockSkew,
		Fault: "The clocks of the API server, of Prometheus, or of a GPU node differ by more than 5 s.",
		Means: "Samples look older or newer than they are: metrics go missing, Leases are lost, and ages in reports are wrong.",
		Also:  from(Clock, Nodes, NodeLeases),
	},
	{
		ID: "recording-rules-missing", Title: "Prometheus has the recording rules", Run: rulesMissing,
		Fault: "Prometheus has series of GPUs, but none of the recording rules.",
		Means: "Panels that read recording rules are empty.",
		Looks: from(GPUNodes, Builds, Recorded), May: from(Deployments, DaemonSets, Monitoring),
	},
	{
		ID: "versions-differ", Title: "All programs are of one release", Run: versionsDiffer,
		Fault: "Exporter, adapter, autoscaler and agent are not all of one release. Development builds are not compared.",
		Means: "Only programs of one release are tested together.",
		Looks: from(Builds),
	},
}

// scraped reports whether Prometheus has series of a program. For an exporter GPU series are enough, since
// some users keep only those.
func (f *Facts) scraped(program string) bool {
	return program == "exporter" && len(f.Answers[GPUNodes]) > 0 || slices.ContainsFunc(f.Answers[Builds], func(s sample) bool { return s.Labels.Get("program") == program && s.Value > 0 })
}

// unscraped says what missing series of a program mean.
var unscraped = map[string]string{
	"exporter":   "No GPU is known: boards are empty, HPAs get no GPU metrics, no GPU is repartitioned and no node is scaled down.",
	"adapter":    "The values that HPAs get are not recorded, and alerts about the adapter cannot fire.",
	"autoscaler": "The report has no demand and no pools, and alerts about the autoscaler cannot fire.",
}

func scrapeMissing(l *look) {
	var found []Program
	for _, name := range []string{"exporter", "adapter", "autoscaler"} {
		programs := l.programs(name)
		if found = append(found, programs...); len(programs) == 0 {
			continue
		}
		p := programs[0]
		if l.scraped(name) || p.Wanted == 0 { // for example a DaemonSet without GPU nodes
			continue
		}
		seen := fmt.Sprintf("Prometheus has no gpuscale_%s_build_info", name)
		fix := "Set the chart's monitoring.scrape to annotations, if your Prometheus scrapes annotated pods; or add a scrape job for this program."
		if includes(Monitoring.in(l), "servicemonitors") {
			fix = "Create a monitor with the chart's monitoring.scrape. Your Prometheus must select the monitor's labels (monitoring.labels) and its namespace: compare what these commands print."
		}
		commands := []string{
			l.operator(p.Namespace, "servicemonitors,podmonitors", "--show-labels"),
			// Some installations select namespaces by label: OpenShift's monitoring of user workloads excludes the
			// platform's namespaces.
			l.where("servicemonitors,podmonitors", l.kubectl("get", "namespace", p.Namespace, "--show-labels")),
			l.pickers(),
			l.where("servicemonitors", l.install(p, "", "monitoring.scrape=ServiceMonitor")),
		}
		if down := values(l.answers(TargetsDown), "instance", "gpuscale-"+name); len(down) > 0 {
			seen += "; these targets are down: " + several(down)
			fix, commands = unread(l, p, name)
		} else if l.has(TargetsDown) {
			seen += " and no target of job gpuscale-" + name + " that is down: the target is missing, or its job has another name"
		}
		add := l.fault
		if name != "exporter" { // HPAs and plans work without these series
			add = l.warn
		}
		add(p.Object(), seen, fix, commands...).Means = unscraped[name]
	}
	for _, s := range l.answers(WithoutNamespace) {
		l.warn("scrape job "+s.Labels.Get("job"), "its gpu_info has no label namespace", "Add relabel_configs that set namespace and pod from __meta_kubernetes_namespace and __meta_kubernetes_pod_name, as monitors do.").
			Means = "Recording rules, alerts, adapter and autoscaler trust targets by their namespace, so they ignore these GPUs, unless exporterNamespaces is \"*\"."
	}
	for _, s := range l.answers(ScrapedRarely) {
		l.warn("scrape job "+s.Labels.Get("job"), "it scrapes its targets about every "+whole(s.Value), "Set the job's scrape interval to a minute or less (monitoring.interval of the chart).", l.operator("", "servicemonitors,podmonitors", "-A")).
			Means = "Rates over five minutes have no value and samples are too old for the adapter: boards have gaps, and HPAs on GPU metrics do not scale."
	}
	orSkip(l, found, "no gpuscale program to scrape is installed")
}

// unread returns what to do about a program's targets that cannot be scraped.
func unread(l *look, p Program, name string) (fix string, commands []string) {
	fix = "Prometheus has the targets and cannot read them: /targets has the error. If it is a timeout or a refused connection, check the pods and the NetworkPolicies."
	commands = []string{l.in(p.Namespace, "get", "pods,networkpolicies", "-o", "wide")}
	if name == "adapter" { // it authenticates callers
		fix += " If it is 401 or 403, your Prometheus' account lacks the right: monitoring.prometheusServiceAccount of the chart."
		commands = append(commands, l.operator("", "prometheuses", "-A", "-o", "custom-columns=NAMESPACE:.metadata.namespace,ACCOUNT:.spec.serviceAccountName"))
	}
	return fix, commands
}

// pickers writes the command that shows which monitors each Prometheus selects, and in which namespaces. A
// Prometheus agent is a kind of its own.
func (l *look) pickers() string {
	kinds := slices.DeleteFunc([]string{"prometheuses", "prometheusagents"}, func(kind string) bool {
		return !includes(Monitoring.in(l), kind) && !includes(MonitoringAlpha.in(l), kind)
	})
	if len(kinds) == 0 {
		return ""
	}
	return l.kubectl("get", strings.Join(kinds, ","), "-A", "-o", `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.serviceMonitorSelector} {.spec.podMonitorSelector}`+
		` in {.spec.serviceMonitorNamespaceSelector} {.spec.podMonitorNamespaceSelector}{"\n"}{end}`)
}

// Rules that have series wherever there are GPUs, or an autoscaler. TestSeries compares them with the rules.
const (
	gpuRule  = "node:gpu_info:count"
	poolRule = "pool:gpuscale_capacity_gpu_seconds:rate5m"
)

// ruleNamespace is the namespace whose targets the rule and alert files trust.
const ruleNamespace = "gpuscale-system"

func rulesMissing(l *look) {
	wanted := []string{gpuRule}
	if l.scraped("autoscaler") {
		wanted = append(wanted, poolRule)
	}
	recorded := values(l.answers(Recorded), "rule", "")
	missing := slices.DeleteFunc(wanted, func(rule string) bool { return slices.Contains(recorded, rule) })
	if len(missing) == 0 {
		return
	}
	var commands []string
	file := "deploy/chart/gpuscale/files/recording.yaml"
	for _, name := range names {
		if programs := l.programs(name); len(programs) > 0 {
			commands = []string{
				l.where("prometheusrules", l.install(programs[0], "", "monitoring.rules.recording=true")), l.operator(programs[0].Namespace, "prometheusrules", "--show-labels"),
				l.operator("", "prometheuses", "-A", "-o", `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.ruleSelector} in {.spec.ruleNamespaceSelector}{"\n"}{end}`),
			}
			if programs[0].Namespace != ruleNamespace {
				file += " (with " + programs[0].Namespace + " in place of " + ruleNamespace + ")"
			}
			break
		}
	}
	l.warn("Prometheus", "it has no series of the recording rules "+several(missing),
		"Install the PrometheusRule with labels that your Prometheus selects (monitoring.labels); or load "+file+" into Prometheus, or into the ruler of Thanos, Mimir or Amazon's service. Prometheus in agent mode evaluates no rules.", commands...)
}

func versionsDiffer(l *look) {
	programs := map[string][]string{} // programs of each release
	for _, s := range l.answers(Builds) {
		release := s.Labels.Get("version")
		if _, err := version.ParseSemantic(release); err == nil {
			programs[release] = append(programs[release], s.Labels.Get("program"))
		}
	}
	var seen []string
	for _, release := range slices.Sorted(maps.Keys(programs)) {
		seen = append(seen, release+" of "+strings.Join(programs[release], ", "))
	}
	if len(seen) > 1 {
		l.warn("Programs", "their releases differ: "+strings.Join(seen, "; "), "Upgrade all programs to one release (docs/operations.md). During an upgrade this is normal: exporters are replaced on a tenth of the nodes at a time.",
			l.kubectl("get", "daemonsets,deployments", "-A", "-l", labelPartOf+"="+partOf, "-o", "wide"))
	}
}

// Clock skews: the first is reported, the second is a fault.
const (
	skewed = 5 * time.Second
	broken = 30 * time.Second
)

func clockSkew(l *look) {
	if l.Now.IsZero() {
		l.cannot("the API server reported no time")
		return
	}
	if at, known := l.moment(Clock); known {
		skew(l, "Prometheus", at.Sub(l.Asked)-l.Now.Sub(l.Local), "Samples look older or newer than they are: the adapter drops those that seem older than maxAge, and HPAs do not scale.")
	}
	// Kubelets renew their Leases every ten seconds by their own clocks. A Lease from the future proves a wrong clock.
	// An old Lease may just be renewed late, so it is not reported.
	for _, n := range Nodes.in(l) {
		lease := find(NodeLeases.in(l), "kube-node-lease", n.Name)
		if lease == nil || lease.Spec.RenewTime == nil || !isGPU(n) || !kube.NodeReady(n) {
			continue
		}
		if ahead := lease.Spec.RenewTime.Sub(l.Now.Add(l.Took)); ahead > 0 {
			skew(l, "Node "+n.Name, ahead, "Times that its exporter reports are in the future, and Leases that its pods hold last longer than others assume.")
		}
	}
}

// moment returns the time in an answer with one sample. known is false if there is none.
func (l *look) moment(s *Source) (at time.Time, known bool) {
	v := l.answers(s)
	if len(v) == 0 || !(v[0].Value > 0) || v[0].Value > 1e11 {
		return at, false
	}
	return time.UnixMilli(int64(v[0].Value * 1000)), true
}

// skew adds a finding for a wrong clock.
func skew(l *look, object string, ahead time.Duration, means string) {
	if ahead.Abs() <= skewed {
		return
	}
	add, where := l.warn, "ahead of"
	if ahead < 0 {
		where = "behind"
	}
	if ahead.Abs() > broken {
		add = l.fault
	}
	add(object, fmt.Sprintf("its clock is %s %s the API server's", ahead.Abs().Round(time.Second), where), "Correct that clock (NTP, chrony).").Means = means
}

func profAbsent(l *look) {
	install := ""
	if exporters := l.programs("exporter"); len(exporters) > 0 {
		install = l.install(exporters[0], "exporter.yaml", "exporter.profiling=true")
	}
	for _, s := range l.answers(BusyMissing) {
		l.fault("Node "+s.Labels.Get("node"), fmt.Sprintf("%s of its GPUs or MIG instances have no gpu_busy_ratio or gpu_instance_busy_ratio", number(s.Value)),
			"Set exporter.profiling: before Hopper the profiling counters require SYS_ADMIN. Check that no other program reads them (dcgm-exporter, Nsight): only one can.", install, exporterLog(l, s.Labels.Get("node")))
	}
}

func namespaceLimits(l *look) {
	for _, s := range l.answers(LimitsExceeded) {
		namespace := cmp.Or(s.Labels.Get("exported_namespace"), s.Labels.Get("namespace"))
		l.warn("Namespace "+namespace, fmt.Sprintf("it exceeds the limit %s, which affects %s of its pods", s.Labels.Get("reason"), number(s.Value)),
			"Find what creates so many objects, and bound it with a ResourceQuota (docs/security.md lists the limits).",
			l.in(namespace, "get", "pods", "--field-selector=status.phase=Pending"), l.in(namespace, "get", "poddisruptionbudgets"))
	}
}

func attributionStale(l *look) {
	logs, install := "", ""
	if exporters := l.programs("exporter"); len(exporters) > 0 {
		logs, install = l.logs(exporters[0]), l.install(exporters[0], "exporter.yaml", "exporter.attribution=true")
	}
	for _, s := range l.answers(AttributionOld) {
		l.fault("Node "+s.Labels.Get("node"), "its exporter last read the allocations "+whole(s.Value)+" ago (gpu_attribution_age_seconds)", "Read the exporter's log: it says why the kubelet's pod-resources socket does not answer.", exporterLog(l, s.Labels.Get("node"))).
			Means = "GPUs are shown with the pods of that time; pods that started later have no GPU metrics."
	}
	for _, s := range l.answers(AttributionFailed) {
		l.warn("Target "+s.Labels.Get("instance"),
			fmt.Sprintf("the exporter has not read the allocations from the kubelet: about %s failures in 15 minutes (gpuscale_exporter_attribution_errors_total)", number(s.Value)),
			"Read the exporter's log: it says why the kubelet's pod-resources socket does not answer.", logs).Means = "The allocation of the node's GPUs is unknown."
	}
	for _, s := range l.answers(AttributionNone) {
		l.warn("Node "+s.Labels.Get("node"), "its exporter does not read the kubelet: Prometheus has gpu_info of this node, but no gpu_attribution_age_seconds",
			"Set exporter.attribution of the chart, which runs the exporter with --kubernetes.", install).
			Means = "The allocation of the node's GPUs is unknown: pods have no GPU metrics, and nothing is repartitioned, reclaimed or scaled down."
	}
}

// number formats a count from Prometheus, rounded.
func number(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

func honorLabels(l *look) {
	moved, plain, self := l.answers(LabelsMoved), l.answers(LabelsPlain), l.answers(LabelsSelf)
	if len(moved)+len(plain)+len(self) == 0 {
		l.skip("Prometheus has no series of gpu_held")
		return
	}
	show := l.operator("", "servicemonitors,podmonitors", "-A", "-o", `jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.endpoints} {.spec.podMetricsEndpoints}{"\n"}{end}`)
	for _, s := range self {
		l.fault("scrape job "+s.Labels.Get("job"), fmt.Sprintf("in gpu_held %s GPUs are allocated to %s/%s, which is the exporter itself: the labels exported_namespace and exported_pod are missing",
			number(s.Value), s.Labels.Get("namespace"), s.Labels.Get("pod")),
			"Remove the relabelling of this job that drops exported_* labels (metricRelabelings with labeldrop), or set honorLabels: true for the job.", show).
			Means = "Every GPU seems allocated to the exporter: pods have no GPU metrics, and the use of teams and quotas is lost."
	}
	if len(moved) > 0 && len(plain) > 0 {
		movedBy, plainBy := values(moved, "job", ""), values(plain, "job", "")
		l.fault("scrape jobs "+several(slices.Concat(movedBy, plainBy)),
			fmt.Sprintf("in gpu_held the pod's namespace is the label exported_namespace in job %s, and namespace in job %s", several(movedBy), several(plainBy)),
			"Set honor_labels to the same value in all jobs that scrape exporters.", show).
			Means = "A query by namespace finds the pods of one job, and the exporter itself for the other."
	}
}

func scrapedTwice(l *look) {
	v := l.answers(GPUsTwice)
	if len(v) == 0 {
		return
	}
	all, monitors := values(v, "job", ""), l.operator("", "servicemonitors,podmonitors", "-A")
	if len(all) < 2 { // no job at all if the series were pushed without one
		job := strings.Join(all, "")
		l.warn("scrape job "+cmp.Or(job, "without a name"), "several of its targets have the same GPU (gpu_uuid): "+several(values(v, "instance", job)),
			"If two exporters run on one node, remove one. If two replicas of Prometheus are behind one address, remove the duplicates: query Thanos with --parameter dedup=true; give the replicas the external labels cluster and __replica__ for Mimir and Amazon's service.", monitors)
		return
	}
	// Keep the job that the alerts name.
	keep := all[0]
	if slices.Contains(all, "gpuscale-exporter") {
		keep = "gpuscale-exporter"
	}
	for _, job := range all {
		if job != keep {
			l.warn("scrape job "+job, fmt.Sprintf("it has the same GPUs (gpu_uuid) as job %s, from %s", keep, several(values(v, "instance", job))),
				"Scrape each exporter by one job only: remove this job, or the target from it. A usual cause is the annotation prometheus.io/scrape in addition to a monitor.", monitors)
		}
	}
}

// values returns the values of a label in an answer, sorted, without duplicates. If a job is given, only
// series of that job count.
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
