package boards_test

import "strings"

// mayBeEmpty are the panels and variables that may be empty at the end of a recording,
// with states and reason. All others must always show something.
var mayBeEmpty = table()

func table() map[string]why {
	all := map[string]why{}
	for _, g := range []struct{ in, reason, names string }{
		{"empty", "no nodes, no GPUs, no demand", `
			fleet/$pool fleet/$model fleet/By pool, fleet/By model, fleet/GPUs by state, fleet/GPUs, fleet/Computing, fleet/Free, fleet/From capacity to work,
			fleet/Allocated and idle, fleet/Allocated, fleet/Cost of not computing, fleet/Unusable, fleet/Sick or unready, fleet/Where GPU time goes,
			fleet/Power, pools/GPUs by state, decisions/Nodes by verdict, decisions/Pods by verdict, mig/$pool`},
		{"empty", "no quota, no allocation and no HPA exists", `
			tenants/$tenant tenants/$namespace tenants/Borrowed, tenants/GPU hours by namespace, tenants/Quotas, tenants/Use of the guarantee, tenants/Used, tenants/Pending,
			tenants/Wait for a node, tenants/Wait for a node; p95, decisions/$namespace decisions/HPAs,
			workload/$hpa workload/HPAs at their maximum, workload/HPA replicas`},
		{"empty", "no action is needed", `decisions/$pool decisions/Actions, decisions/Actions over time, pools/Actions on pools`},
		{"empty", "no node has an exporter; in the state down its past is still shown", `
			health/Energy, health/Hottest GPUs, health/Hottest memory, health/Gone, health/Power by node, self/Reads, self/Reads; p95, self/Series, self/Values left out,
			workload/Busy by pod, workload/Memory in use by pod`},
		{"empty down", "no exporter answers", `
			health/$node health/$product health/Broken, health/GPUs, health/Health unknown, health/Healthy, health/Oldest value, health/XID errors,
			self/Driver not answering, self/Exporters answering, self/Labels of pods, self/Oldest attribution, self/Oldest value,
			workload/$namespace workload/GPUs and slices, workload/Longest idle, workload/Mean busy, workload/Pods with GPUs, workload/Allocations`},
		{"xid empty", "no GPU is in MIG mode, all are whole and in use or free", `mig/Before, mig/Instances, mig/Unusable free slices, fleet/Unusable; by cause`},
		{"xid empty down", "no GPU is in MIG mode, or no exporter answers", `mig/$node mig/Instances by profile, mig/Now`},
		{"healthy xid empty down", "no GPU is repartitioned", `mig/GPUs repartitioned, mig/Repartitions under way, mig/Repartitions`},
		{"xid empty", "no pod waits for an action", `decisions/Decision; median, decisions/Decision; p95`},
		{"mig empty", "no HPA is limited", `decisions/HPAs that are limited, workload/HPA limits`},
		{"mig xid empty", "no forecast is listed, no model server runs", `
			decisions/Error of the forecasts, decisions/Forecast, workload/KV cache in use, workload/Requests running, workload/Requests waiting now,
			workload/Requests waiting, workload/Time to first token; p95`},
		{"healthy xid empty", "no demand is unserved", `decisions/Unserved GPUs, decisions/Unserved pods, fleet/Unserved demand`},
		{"mig empty", "no node left, and none was added", `health/Gone GPUs, pools/Request to ready`},
		{"mig xid empty down", "no node was interrupted", `pools/Nodes interrupted`},
		{"healthy mig empty down", "no clock is throttled", `health/Clocks throttled`},
		{"healthy mig empty down", "no memory had an error", `health/Memory errors by GPU`},
		{"healthy mig empty down", "no GPU had an error", `health/GPUs that were broken, health/XID errors by GPU, health/XID errors by code`},
		{"healthy mig xid empty down", "no GPU is broken, or its node has been replaced by then", `health/Broken GPUs`},
		{"healthy mig xid empty down", "no action fails in the recordings", `pools/What failed`},
		{"healthy mig xid empty down", "the recordings have no API server for Events", `self/Events`},
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
