package states_test

import "strings"

// mayBeEmpty are the panels and variables that may be empty at the end of a recording,
// with states and reason. All others must always show something.
var mayBeEmpty = emptyTable()

func emptyTable() map[string]why {
	all := map[string]why{}
	for _, g := range []struct{ in, reason, names string }{
		{"empty", "no nodes, no GPUs, no demand", `
			autoscaler/$model autoscaler/By pool, autoscaler/GPUs by state, autoscaler/GPUs, autoscaler/Computing, autoscaler/Free, autoscaler/From capacity to work,
			autoscaler/Allocated and idle, autoscaler/Allocated, autoscaler/Hourly cost of not computing, autoscaler/Unusable, autoscaler/Sick or unready, autoscaler/Where GPU time goes,
			autoscaler/Pods by verdict, overview/GPUs by product, overview/Allocated GPUs, overview/Busy, mig/$pool`},
		{"empty", "no quota, no allocation and no HPA exists", `
			autoscaler/$tenant autoscaler/$namespace autoscaler/GPU hours by namespace, autoscaler/Quotas, autoscaler/Use of the guarantee,
			autoscaler/Pending time; p95, workload/$hpa workload/HPAs at their maximum, workload/HPA replicas`},
		{"empty", "no action is needed", `autoscaler/Actions, autoscaler/Actions over time`},
		{"empty", "no node has an exporter; in the state down its past is still shown", `
			health/Energy, health/Hottest GPUs, health/Hottest memory, health/Gone, health/Power by node, workload/Busy by pod, workload/Memory in use by pod`},
		{"empty down", "no exporter answers", `
			health/$node health/$product health/Broken, health/GPUs, health/Health unknown, health/Healthy, health/Oldest value, health/XID errors,
			overview/$namespace overview/GPUs, overview/Allocated, overview/Mean busy, overview/Allocated and idle, overview/Broken, overview/Driver not answering, overview/Oldest value, overview/Power,
			overview/By node, overview/By namespace, overview/Labels of pods,
			workload/$namespace workload/GPUs and slices, workload/Longest idle, workload/Mean busy, workload/Pods with GPUs, workload/Allocations`},
		{"xid empty", "no GPU is in MIG mode, all are whole and in use or free", `mig/Before, mig/Instances, mig/Unusable free slices, autoscaler/Unusable; by cause`},
		{"xid empty down", "no GPU is in MIG mode, or no exporter answers", `mig/$node mig/Instances by profile, mig/Now`},
		{"healthy xid empty down", "no GPU is repartitioned", `mig/GPUs repartitioned, mig/Repartitions under way, mig/Repartitions`},
		{"xid empty", "no pod waits for an action", `autoscaler/Decision; p95`},
		{"mig empty", "no HPA is limited", `workload/HPA limits`},
		{"mig xid empty", "no forecast is listed, no model server runs", `
			autoscaler/Forecast, workload/KV cache in use, workload/Requests running, workload/Requests waiting now,
			workload/Requests waiting, workload/Time to first token; p95`},
		{"healthy xid empty", "no demand is unserved", `autoscaler/Unserved GPUs`},
		{"mig empty", "no node left, and none was added", `health/Gone GPUs, autoscaler/Request to ready`},
		{"mig xid empty down", "no node was interrupted", `autoscaler/Nodes interrupted`},
		{"healthy mig empty down", "no clock is throttled", `health/Clocks throttled`},
		{"healthy mig empty down", "no memory had an error", `health/Memory errors by GPU`},
		{"healthy mig empty down", "no GPU had an error", `health/GPUs that were broken, health/XID errors by GPU, health/XID errors by code`},
		{"healthy mig xid empty down", "no GPU is broken, or its node has been replaced by then", `health/Broken GPUs`},
		{"healthy mig xid empty down", "no action fails in the recordings", `autoscaler/What failed`},
	} {
		for _, name := range names(g.names) {
			all["gpuscale-"+name] = why{g.in, g.reason}
		}
	}
	return all
}

// names reads a list: a variable is a word, a panel's title ends at a comma, with a
// semicolon for a comma of its own.
func names(text string) []string {
	var all []string
	for _, part := range strings.Split(strings.Join(strings.Fields(text), " "), ",") {
		part = strings.TrimSpace(part)
		for strings.Contains(part, "/$") {
			word, rest, _ := strings.Cut(part, " ")
			all, part = append(all, word), rest
		}
		if part != "" {
			all = append(all, strings.ReplaceAll(part, ";", ","))
		}
	}
	return all
}
