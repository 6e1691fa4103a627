package alerts

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// A round is a second, or ten where nothing happens. What is planned on is seconds
// old. Half of all rounds failing is more than conflicts make.
const (
	failingRounds = 0.5
	lateRound     = 300
	oldSnapshot   = 180
)

// autoscaler is about whether the autoscaler decides at all.
func autoscaler() []Alert {
	return []Alert{
		{
			Name: "GpuscaleAutoscalerNoLeader", Severity: Critical, Enabled: true, Program: metric.Autoscaler, For: 5 * time.Minute,
			Why:     "A lease changes hands within a minute.",
			Summary: "No replica of the autoscaler decides",
			Description: "Nothing is bought, cut, reclaimed or given back, and the fleet's series are gone. What was begun stays as it stands. " +
				"Look first at the autoscaler's pods, then at its lease: kubectl -n gpuscale-system get lease.",
			query: fixed("absent(" + metric.AutoscalerLeader.Name + ") or " + sum(metric.AutoscalerLeader.Name) + " == 0"),
		},
		{
			Name: "GpuscaleRoundsFailing", Severity: Warning, Enabled: true, Program: metric.Autoscaler, Threshold: at(failingRounds), For: 10 * time.Minute,
			Why:     "A round that meets a conflict fails and the next one goes on. Half of them for ten minutes is no conflict.",
			Summary: "{{ $value | humanizePercentage }} of the autoscaler's rounds fail",
			Description: "Rounds end with an error, so decisions come late. " +
				"Look first at the autoscaler's log: it says at which step, and what the API server answered.",
			query: func(p Params) string {
				all := func(m ...string) string { return sum("rate(" + of(metric.AutoscalerRounds, m...) + "[10m])") }
				return all(`result="error"`) + " / " + all() + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscaleRoundStale", Severity: Critical, Enabled: true, Program: metric.Autoscaler, Threshold: at(lateRound), For: 2 * time.Minute,
			Why:     "A round is a second, ten where nothing happens, and its deadlines are below a minute.",
			Summary: "No round of the autoscaler has ended well for {{ $value | humanizeDuration }}",
			Description: "The autoscaler runs and decides nothing: every round fails, or one hangs. Pods wait and nothing is bought. " +
				"Look first at its log: it says whether the API server answers.",
			query: func(p Params) string {
				return "time() - " + most(of(metric.AutoscalerRoundAge)) + " > " + p.Threshold
			},
		},
		{
			Name: "GpuscalePlannerPanicked", Severity: Warning, Enabled: true, Program: metric.Autoscaler,
			Why:     "It is a bug, each time.",
			Summary: "The planner panicked",
			Description: "The planner panicked within the last hour, and in that round nothing was done. It is a bug of ours. " +
				"Look first at /debug/panic on the replica that leads: it has the snapshot. Report it with that.",
			query: fixed(sum("increase("+of(metric.AutoscalerPlannerPanics)+"[1h])") + " > 0"),
		},
		{
			Name: "GpuscaleSnapshotStale", Severity: Warning, Enabled: true, Program: metric.Autoscaler, Threshold: at(oldSnapshot), For: 5 * time.Minute,
			Why:     "The cluster is read each round, Prometheus several times in the time that its answers are believed.",
			Summary: "The autoscaler plans on what {{ $labels.kind }} said {{ $value | humanizeDuration }} ago",
			Description: "kind cluster: the API server has not been read. kind prometheus: who holds and uses what is unknown, so nothing is reclaimed, cut or given back for being idle. " +
				"Look first whether Prometheus answers the autoscaler, and whether exporters answer Prometheus.",
			query: func(p Params) string {
				return most(leads(of(metric.AutoscalerSnapshotAge)), metric.LabelKind) + " > " + p.Threshold
			},
		},
	}
}
