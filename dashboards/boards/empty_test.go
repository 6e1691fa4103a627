package boards_test

import "strings"

// mayBeEmpty are the panels and variables that may have nothing to show as a
// recording ends, the states in which, and why. Everything else has to show
// something, always.
var mayBeEmpty = table()

func table() map[string]why {
	all := map[string]why{}
	for _, g := range []struct{ in, reason, names string }{
		{"empty", "no nodes, no cards, nobody who wants any", `
			fleet/$pool fleet/$model fleet/By pool, fleet/By model, fleet/Cards by state, fleet/Cards, fleet/Computing, fleet/Free, fleet/From capacity to work,
			fleet/Held and idle, fleet/Held, fleet/Of it not computing, fleet/Serve nobody, fleet/Sick or unready, fleet/Where card time goes,
			fleet/Power, pools/Cards by state, decisions/Nodes by verdict, decisions/Pods by verdict, mig/$pool`},
		{"empty", "nobody has a quota, holds anything or has an HPA", `
			tenants/$tenant tenants/$namespace tenants/Borrowed, tenants/Card hours by namespace, tenants/Quotas, tenants/Use of the guarantee, tenants/Used, tenants/Waiting,
			tenants/Wait for a node, tenants/Wait for a node; p95, decisions/$namespace decisions/HPAs,
			workload/$hpa workload/HPAs at their maximum, workload/What the HPA wants and has`},
		{"empty", "there is nothing to be done", `decisions/$pool decisions/Actions, decisions/Actions over time, pools/Actions on pools`},
		{"empty", "no node has an exporter; in the state down its past is still shown", `
			health/Energy, health/Hottest cards, health/Hottest memory, health/Gone, health/Power by node, self/Reads, self/Reads; p95, self/Series, self/Values left out,
			workload/Busy by pod, workload/Memory in use by pod`},
		{"empty down", "no exporter speaks", `
			health/$node health/$product health/Broken, health/Cards, health/Health unknown, health/Healthy, health/Oldest value, health/XID errors,
			self/Driver silent, self/Exporters answering, self/Labels of holders, self/Oldest holder map, self/Oldest value,
			workload/$namespace workload/Cards and slices, workload/Longest idle, workload/Mean busy, workload/Pods with cards, workload/Who holds what`},
		{"xid empty", "no card is in MIG mode, all are whole and in use or free", `mig/Before, mig/Instances, mig/Room that serves nobody, fleet/Serve nobody; by cause`},
		{"xid empty down", "no card is in MIG mode, or no exporter speaks", `mig/$node mig/Instances by profile, mig/Now`},
		{"healthy xid empty down", "no card is cut anew", `mig/Cards cut anew, mig/Repartitions under way, mig/Repartitions`},
		{"xid empty", "no pod waits for an action", `decisions/Decision; median, decisions/Decision; p95`},
		{"mig empty", "no HPA is limited", `decisions/HPAs that are limited, workload/What limits the HPA`},
		{"mig xid empty", "no forecast is listed, no model server runs", `
			decisions/Error of the forecasts, decisions/Forecast, workload/KV cache in use, workload/Requests running, workload/Requests waiting now,
			workload/Requests waiting, workload/Time to first token; p95`},
		{"healthy xid empty", "nobody waits in vain", `decisions/Cards that nothing is done for, decisions/Pods that nothing is done for, fleet/Wanted and not served`},
		{"mig empty", "every node that was there is there, and none came", `health/Gone cards, pools/Request to ready`},
		{"mig xid empty down", "no provider gave notice", `pools/Nodes taken away`},
		{"healthy mig empty down", "no clock is held down", `health/Clocks held down`},
		{"healthy mig empty down", "no memory had an error", `health/Memory errors by card`},
		{"healthy mig empty down", "no card had an error", `health/Cards that were broken, health/XID errors by card, health/XID errors by code`},
		{"healthy mig xid empty down", "no card is broken, or its node has been replaced by then", `health/Broken cards`},
		{"healthy mig xid empty down", "no action fails in the recordings", `pools/What failed`},
		{"healthy mig xid empty down", "the recordings have no API server to tell Events to", `self/Events told`},
	} {
		for _, name := range names(g.names) {
			all["gpuscale-"+name] = why{g.in, g.reason}
		}
	}
	return all
}

// names reads a list: a variable is a word, a panel's title ends at a comma, and has
// a semicolon for a comma of its own.
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
