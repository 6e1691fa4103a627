package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/query"
)

// ofLedger are the queries of the ledger.
var ofLedger = []query.ID{
	query.Capacity, query.Places, query.Nodes, query.Sick, query.Dark, query.Allocated, query.Measured, query.IdleAllocated, query.Busy,
}

// madeFrom are the queries behind a table's rows. A table without rows means zero only
// if all of them were answered.
var madeFrom = map[string][]query.ID{
	"hours": ofLedger, "use": ofLedger, "lost": ofLedger, "forecast": ofLedger,
	"waits": {query.PodWait, query.PodWaitNative, query.Decisions, query.DecisionsNative}, "unmet": {query.Waiting},
	"hpas": {query.HPAAtMax, query.HPALimited}, "refused": {query.Refused}, "tenants": {query.Tenants}, "serving": {query.Tokens, query.TokensBeyond},
	"pools":         append([]query.ID{query.PoolNodes, query.PoolPrice, query.GPUs}, ofLedger...),
	"events":        {query.PoolNodes, query.Actions, query.NodeReady, query.NodeReadyNative, query.Failures, query.Interrupted, query.Backoff},
	"fragmentation": {query.Devices, query.Instances, query.AllocatedTo}, "profiles": {query.Devices, query.Instances, query.AllocatedTo, query.Allocated},
	"rightsize": {query.Devices, query.AllocatedTo, query.MemoryP99, query.UseP95, query.InstUseP95},
	"workloads": {query.Forecasts, query.ForecastErr}, "xids": {query.XIDs}, "sick": {query.SickNodes},
}

// lacking names the queries of a table that were not answered in full.
func lacking(r model.Report, table string) string {
	var names []string
	for _, id := range madeFrom[table] {
		if slices.Contains(r.Answer.Quality.Unanswered, string(id)) {
			names = append(names, fmt.Sprintf("%q", id))
		}
	}
	return strings.Join(names, ", ")
}

// doubted is the note under a table, or in place of one without rows, about what it lacks.
func (t Table) doubted(r model.Report) Table {
	names := lacking(r, t.Name)
	switch {
	case names == "":
	case len(t.Rows) == 0:
		t.Empty = "Not known: not answered in full: " + names + ". See section 0."
	default:
		t.Note = "Partly known: not answered in full: " + names + ". See section 0."
	}
	return t
}
