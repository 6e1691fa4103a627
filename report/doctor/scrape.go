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
		ID: "scrape-missing", Title: "Prometheus scrapes our programs", Run: scrapeMissing,
		Fault: "A program is installed, and Prometheus has no healthy target of it, scrapes it less than every two and a half minutes, or gives its series no label `namespace`.",
		Means: "Its metrics are lost: boards and reports are empty, HPAs and the autoscaler have no GPU metrics.",
		Looks: from(Deployments, DaemonSets, Builds), Also: from(TargetsDown, WithoutNamespace, ScrapedRarely), May: from(Monitoring, MonitoringAlpha),
	},
	{
		ID: "exporter-missing", Title: "Every GPU node has an exporter with fresh values", Run: exporterMissing,
		Fault: "A node with GPUs has no ready exporter, none that Prometheus scrapes, or one with stale values.",
		Means: "The allocation of its GPUs is unknown: it is not scaled down, repartitioned or reclaimed, and its pods have no GPU signals.",
		Looks: from(Nodes), Also: from(Deployments, DaemonSets, Pods, GPUNodes, SamplesOld),
	},
	{
		ID: "prof-absent", Title: "GPUs have a busy ratio", Run: profAbsent,
		Fault: "GPUs have no busy ratio: the profiling counters cannot be read.",
		Means: "`gpu_busy` has no value, HPAs on it do not scale, and idle GPUs are not recognized.",
		Looks: from(GPUNodes, BusyMissing), Also: from(Deployments, DaemonSets),
	},
	{
		ID: "attribution-stale", Title: "Exporters know allocations", Run: attributionStale,
		Fault: "The kubelet's pod resources have not been read for five minutes, or are not read at all.",
		Means: "GPUs are shown with their allocation at that time, or without any.",
		Looks: from(GPUNodes), Also: from(AttributionOld, AttributionFailed, AttributionNone, Deployments, DaemonSets),
	},
	{
		ID: "honor-labels", Title: "GPU series keep the pod's namespace and name", Run: honorLabels,
		Fault: "Two scrape configurations disagree about `honor_labels`, or `exported_*` labels are dropped, so that GPUs seem allocated to the exporter itself.",
		Means: "GPUs are counted towards the exporter's namespace, or twice under two names.",
		Looks: from(LabelsMoved, LabelsPlain, LabelsSelf), May: from(Monitoring),
	},
	{
		ID: "scraped-twice", Title: "Each GPU is exported once", Run: scrapedTwice,
		Fault: "The same GPU comes from two targets.",
		Means: "Sums of users' own queries count GPUs twice. The adapter takes the larger of two; boards and reports merge by GPU.",
		Looks: from(GPUNodes, GPUsTwice), May: from(Monitoring),
	},
	{
		ID: "two-exporters", Title: "One exporter per node", Run: twoExporters,
		Fault: "NVIDIA's dcgm-exporter and ours run on one node.",
		Means: "On many GPUs only one of them can read profiling counters; repartitions wait until both release the GPU.",
		Looks: from(DaemonSets, Pods),
	},
	{
		ID: "clock-skew", Title: "Clocks agree", Run: clockSkew,
		Fault: "The clocks of the API server, of Prometheus, or of a GPU node differ by more than 5 s.",
		Means: "Samples look older than they are: signals go missing, Leases are lost, ages in reports are wrong.",
		Also:  from(Clock, Nodes, NodeLeases),
	},
	{
		ID: "recording-rules-missing", Title: "Prometheus has the recording rules", Run: rulesMissing,
		Fault: "GPUs are scraped, and the recording rules have no series.",
		Means: "Boards are empty where they read rules.",
		Looks: from(GPUNodes, Builds, Recorded), May: from(Deployments, DaemonSets, Monitoring),
	},
	{
		ID: "versions-differ", Title: "Programs are of one release", Run: versionsDiffer,
		Fault: "Exporter, adapter, autoscaler or agent are of different releases. Builds of a checkout are not compared.",
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
		if l.scraped(name) || p.Wanted == 0 { // for example a DaemonSet without GPU nodes
			continue
		}
		seen := fmt.Sprintf("gpuscale_%s_build_info has no series", name)
		fix := "Have Prometheus scrape it: monitoring.scrape of the chart, and labels (monitoring.labels) that your Prometheus picks monitors by, in a namespace that it looks in."
		commands := []string{
			l.operator(p.Namespace, "servicemonitors,podmonitors", "--show-labels"),
			// Some installations select namespaces by label: OpenShift's monitoring of user workloads excludes the
			// platform's namespaces.
			l.where("servicemonitors,podmonitors", l.kubectl("get", "namespace", p.Namespace, "--show-labels")),
			l.pickers(),
			l.where("servicemonitors", l.install(p, "", "monitoring.scrape=ServiceMonitor")),
		}
		if down := values(l.answers(TargetsDown), "instance", "gpuscale-"+name); len(down) > 0 {
			seen += "; down: " + several(down)
			fix, commands = unread(l, p, name)
		} else if l.has(TargetsDown) {
			seen += ", and no target of job gpuscale-" + name + " is down: Prometheus has no such target, or under another job"
		}
		add := l.fault
		if name != "exporter" { // HPAs and plans work without these series
			add = l.warn
		}
		add(p.Object(), seen, fix, commands...).Means = unscraped[name]
	}
	for _, s := range l.answers(WithoutNamespace) {
		l.warn("scrape job "+s.Labels.Get("job"), "gpu_info has no label namespace", "Have the job set namespace and pod of its targets (relabel_configs from __meta_kubernetes_namespace and __meta_kubernetes_pod_name), as monitors do.").
			Means = "rules, alerts, adapter and autoscaler trust targets by their namespace, so these GPUs count for none of them, unless exporterNamespaces is \"*\""
	}
	for _, s := range l.answers(ScrapedRarely) {
		l.warn("scrape job "+s.Labels.Get("job"), "it is scraped about every "+whole(s.Value), "Set the job's scrape interval to a minute or less (monitoring.interval of the chart).", l.operator("", "servicemonitors,podmonitors", "-A")).
			Means = "rates over five minutes have no value and the adapter's samples are too old: boards have holes, and HPAs on GPU signals do not scale"
	}
	orSkip(l, found, "no program of gpuscale to scrape was found")
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
	var kinds []string
	if includes(Monitoring.in(l), "prometheuses") {
		kinds = append(kinds, "prometheuses")
	}
	if includes(MonitoringAlpha.in(l), "prometheusagents") {
		kinds = append(kinds, "prometheusagents")
	}
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
	l.warn("Prometheus", "no series of "+several(missing),
		"Install the PrometheusRule with labels that your Prometheus picks rules by (monitoring.labels), or give "+file+" to it, or to its ruler (Thanos, Mimir, Amazon's service; an agent evaluates none).", commands...)
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
		l.warn("Programs", "releases "+strings.Join(seen, "; "), "Upgrade all of them to one release (docs/operations.md). While an upgrade replaces the exporters, a tenth of the nodes at a time, this is normal.",
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
	local := l.Now.Sub(l.Local)
	if local.Abs() > skewed {
		l.warn("This machine", fmt.Sprintf("its clock is %s the API server's", behind(-local)), "Set the clock of this machine (NTP).").
			Means = "ages in this report are wrong; the cluster is not affected"
	}
	if at, known := l.moment(Clock); known {
		skew(l, "Prometheus", at.Sub(l.Asked)-local, "samples look older, or younger, than they are: the adapter drops those beyond maxAge, and HPAs do not scale")
	}
	// Kubelets renew their Leases every ten seconds by their own clocks. A Lease from the future proves a wrong clock.
	// An old Lease may just be renewed late, so it is not reported.
	for _, n := range Nodes.in(l) {
		lease := find(NodeLeases.in(l), "kube-node-lease", n.Name)
		if lease == nil || lease.Spec.RenewTime == nil || !isGPU(n) || !kube.NodeReady(n) {
			continue
		}
		if ahead := lease.Spec.RenewTime.Sub(l.Now.Add(l.Took)); ahead > 0 {
			skew(l, "Node "+n.Name, ahead, "its exporter's times are in the future, and Leases held by its pods last longer than others assume")
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
	add := l.warn
	if ahead.Abs() > broken {
		add = l.fault
	}
	add(object, fmt.Sprintf("its clock is %s the API server's", behind(ahead)), "Set the clock there (NTP, chrony).").Means = means
}

func behind(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).Round(time.Second).String() + " behind"
	}
	return ahead.Round(time.Second).String() + " ahead of"
}

func profAbsent(l *look) {
	var commands []string
	if exporters := l.programs("exporter"); len(exporters) > 0 {
		commands = []string{l.install(exporters[0], "exporter.yaml", "exporter.profiling=true"), l.logs(exporters[0])}
	}
	for _, s := range l.answers(BusyMissing) {
		l.fault("Node "+s.Labels.Get("node"), fmt.Sprintf("gpu_info or gpu_instance_info has %s GPUs or instances without a busy ratio", number(s.Value)),
			"Profiling counters need SYS_ADMIN before Hopper, and one reader only: set exporter.profiling, and check that no other monitor (dcgm-exporter, Nsight) uses them.", commands...)
	}
}

func namespaceLimits(l *look) {
	for _, s := range l.answers(LimitsExceeded) {
		namespace := cmp.Or(s.Labels.Get("exported_namespace"), s.Labels.Get("namespace"))
		l.warn("Namespace "+namespace, fmt.Sprintf("it exceeds the limit %s: %s pods", s.Labels.Get("reason"), number(s.Value)),
			"Find what creates them; a ResourceQuota bounds it (docs/security.md has the limits).",
			l.in(namespace, "get", "pods", "--field-selector=status.phase=Pending"), l.in(namespace, "get", "poddisruptionbudgets"))
	}
}

func attributionStale(l *look) {
	logs, install := "", ""
	if exporters := l.programs("exporter"); len(exporters) > 0 {
		logs, install = l.logs(exporters[0]), l.install(exporters[0], "exporter-node.yaml", "exporter.attribution=true")
	}
	for _, s := range l.answers(AttributionOld) {
		l.fault("Node "+s.Labels.Get("node"), "gpu_attribution_age_seconds is "+whole(s.Value), "Check why the kubelet's pod-resources socket does not answer the exporter there.", logs).
			Means = "GPUs are shown with their allocation at that time; later pods have no GPU signals"
	}
	for _, s := range l.answers(AttributionFailed) {
		l.warn("Target "+s.Labels.Get("instance"),
			fmt.Sprintf("allocations have not been read from the kubelet: about %s failures in 15 minutes (gpuscale_exporter_attribution_errors_total), and no gpu_attribution_age_seconds", number(s.Value)),
			"Check the exporter's log about the kubelet's pod-resources socket.", logs).Means = "meanwhile the allocation of the node's GPUs is unknown"
	}
	for _, s := range l.answers(AttributionNone) {
		l.warn("Node "+s.Labels.Get("node"), "gpu_info has series of this node, and gpu_attribution_age_seconds has none: its exporter does not read the kubelet",
			"Run the exporter with --kubernetes, which exporter.attribution of the chart does.", install).
			Means = "the allocation of its GPUs is unknown: no GPU signals for pods, nothing is repartitioned, reclaimed or scaled down"
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
		l.fault("scrape job "+s.Labels.Get("job"), fmt.Sprintf("gpu_held allocates to %s/%s %s GPUs: that is the exporter itself, and exported_namespace and exported_pod are gone",
			s.Labels.Get("namespace"), s.Labels.Get("pod"), number(s.Value)),
			"Remove the relabelling that drops exported_* labels from this job (metricRelabelings with labeldrop), or set honorLabels: true for it.", show).
			Means = "every GPU seems allocated to the exporter: pods have no GPU signals, teams no hours, quotas no use"
	}
	if len(moved) > 0 && len(plain) > 0 {
		movedBy, plainBy := values(moved, "job", ""), values(plain, "job", "")
		l.fault("scrape jobs "+several(slices.Concat(movedBy, plainBy)),
			fmt.Sprintf("the pod's namespace is exported_namespace in %s and namespace in %s (gpu_held)", several(movedBy), several(plainBy)),
			"Give all jobs that scrape exporters the same honor_labels: true in each, or in none.", show).
			Means = "a query of these series finds the pods of one half only, and the exporter in the other"
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
		l.warn("scrape job "+cmp.Or(job, "without a name"), "has the same gpu_uuid from several targets: "+several(values(v, "instance", job)),
			"Two replicas of Prometheus behind one address (query Thanos with --parameter dedup=true; Mimir and Amazon's service drop one of two that have the external labels cluster and __replica__), or two exporters on one node.", monitors)
		return
	}
	// Keep the job that the alerts name.
	keep := all[0]
	if slices.Contains(all, "gpuscale-exporter") {
		keep = "gpuscale-exporter"
	}
	for _, job := range all {
		if job != keep {
			l.warn("scrape job "+job, fmt.Sprintf("has the same gpu_uuid as job %s: from %s", keep, several(values(v, "instance", job))),
				"Have each exporter scraped by one job: remove this one, or its target; the prometheus.io/scrape annotation beside a monitor is a usual reason.", monitors)
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
