package doctor

import (
	"slices"
)

// rules with series wherever GPUs, or the autoscaler, are. TestRules compares them with
// the rules themselves.
const (
	gpuRule  = "node:gpu_info:count"
	poolRule = "pool:gpuscale_capacity_gpu_seconds:rate5m"
)

func rulesMissing(l *look) {
	if l.noGPUs() {
		return
	}
	v, known := l.answer(Recorded)
	builds, scraped := l.answer(Builds)
	if !known {
		return
	}
	wanted := []string{gpuRule}
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
		Fix: "Install the PrometheusRule with labels that your Prometheus picks rules by (monitoring.labels), or give it deploy/chart/gpuscale/files/recording.yaml.",
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
