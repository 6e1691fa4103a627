package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/query"
)

// Sections returns the report as numbered sections of tables. The page itself shows the five figures and the
// actions.
func Sections(r model.Report) []Section {
	all := []Section{
		{"0", "answer", "The answer", nil, []Table{quality(r.Answer.Quality)}},
		{"1", "hours", "Where every GPU-hour went", r.Hours.Notes, []Table{hours(r)}},
		{"2", "demand", "Pending demand", lead(r.Demand.Missing), demand(r.Demand)},
		{"3", "use", "By team, namespace and model", lead(r.Use.Missing), use(r.Use)},
		{"4", "pools", "Node pools", nil, pools(r.Pools)},
		{"5", "mig", "MIG and right-sizing", append(lead(r.MIG.Missing), lead(r.MIG.RightSizeNote)...), layouts(r.MIG)},
		{"6", "forecast", "Forecast", lead(r.Forecast.Note), forecasts(r.Forecast)},
		{"7", "actions", "Actions", []string{"Each action has the GPU-hours of this window that it concerns, and the query for that number. Savings of different actions overlap: do not add them up."}, nil},
		{"8", "reliability", "Reliability", lead(r.Reliability.Missing), reliability(r)},
		methods(r),
	}
	if len(r.Answer.Quality.Unanswered) > 0 {
		all[7].Lead = append(all[7].Lead, "Some queries were not answered in full (section 0): hours may be too low, and actions may be missing.")
	}
	for i := range all {
		// An empty table without a text for that case is left out.
		all[i].Tables = slices.DeleteFunc(all[i].Tables, func(t Table) bool { return len(t.Rows) == 0 && t.Empty == "" })
		for k := range all[i].Tables {
			all[i].Tables[k] = all[i].Tables[k].finish(r)
		}
	}
	return all
}

// lead returns the sentence as a list, which is empty if there is none.
func lead(sentence string) []string {
	if sentence == "" {
		return nil
	}
	return []string{strings.ToUpper(sentence[:1]) + sentence[1:]}
}

// rows makes a row of cells for each element.
func rows[T any](all []T, row func(T) []Cell) (out [][]Cell) {
	for _, x := range all {
		out = append(out, row(x))
	}
	return out
}

func whole(n int) Cell { return digits(model.Known(float64(n))) }

func quality(q model.Quality) Table {
	t := Table{Name: "quality", Title: "Data quality", Columns: []string{"", ""}}
	add := func(name string, values ...string) {
		t.Rows = append(t.Rows, rows(values, func(v string) []Cell { return []Cell{word(name), word(v)} })...)
	}
	add("Grade", q.Grade)
	add("Share of the window with a record", model.Share(q.Coverage))
	add("GPU-hours of unknown use or allocation", model.Digits(q.Unattributed))
	add("Source", q.Source)
	add("Prices", q.Prices)
	for _, g := range q.Gaps {
		add("No record", Time(g.From)+" to "+Time(g.Until))
	}
	if len(q.Unanswered) > 0 {
		add("Queries not answered in full", strings.Join(q.Unanswered, ", "))
	}
	add("Problem", q.Problems...)
	return t
}

func hours(r model.Report) Table {
	h := r.Hours
	t := Table{Name: "hours", Title: "GPU-hours by place", From: ofLedger, Columns: []string{"Place", "GPU-hours", "Share", "Money", "Meaning"}}
	pictures := waterfall(h.Places)
	for i, p := range h.Places {
		name := word(p.Name)
		name.Picture = pictures[i]
		t.Rows = append(t.Rows, []Cell{name, digits(p.Hours), share(p.Share), money(p.Money), word(p.Meaning)})
	}
	t.Rows = append(t.Rows, []Cell{word("Sum"), digits(h.Sum), share(h.Sum.Over(h.Capacity)), money(h.Money), word("the capacity is " + model.Digits(h.Capacity))})
	return t
}

func demand(d model.Demand) []Table {
	if len(d.Waits) == 0 { // unknown without the autoscaler
		return nil
	}
	wait := func(x model.Wait) []Cell {
		return []Cell{word(x.Of), digits(x.Count), seconds(x.P50), seconds(x.P95), seconds(x.P99)}
	}
	return []Table{
		{Name: "waits", Title: "Time from a pod's creation until it was bound", Empty: "No pod was bound in the window.", Columns: []string{"Tenant", "Pods", "Median", "95 %", "99 %"}, From: []query.ID{query.PodWait}, Rows: rows(d.Waits, wait)},
		{Name: "decision", Title: "Time until the autoscaler acted for a pending pod", Columns: []string{"Tenant", "Pods", "Median", "95 %", "99 %"}, From: []query.ID{query.Decisions}, Rows: [][]Cell{wait(d.Decision)}},
		{Name: "unmet", Title: "Unserved demand", Empty: "All demand was served.", Columns: []string{"Shape", "Reason", "GPU-hours", "Peak GPUs"}, From: []query.ID{query.Waiting},
			Rows: rows(d.Unmet, func(x model.Unmet) []Cell {
				return []Cell{word(model.Shape(x.Shape)), word(x.Reason), digits(x.Hours), digits(x.Peak)}
			})},
		{Name: "hpas", Title: "HPAs at their maximum", Empty: "No HPA reached its maximum.", Columns: []string{"HPA", "Hours", "Replicas", "Limited by"}, From: []query.ID{query.HPAAtMax, query.HPALimited},
			Rows: rows(d.HPAs, func(x model.HPA) []Cell {
				return []Cell{word(x.Namespace + "/" + x.Name), digits(x.AtMax), digits(x.Max), word(x.Reasons)}
			})},
	}
}

func use(u model.Use) []Table {
	return []Table{
		{Name: "tenants", Title: "Quotas, in GPUs, means over the window", Columns: []string{"Tenant", "Guaranteed", "Limit", "Used", "Borrowed", "Lent", "Pending"}, From: []query.ID{query.Tenants},
			Rows: rows(u.Tenants, func(x model.Tenant) []Cell {
				return []Cell{word(x.Tenant), digits(x.Guaranteed), digits(x.Limit), digits(x.Used), digits(x.Borrowed), digits(x.Lent), digits(x.Pending)}
			})},
		{Name: "use", Title: "Allocated GPU-hours and their use", Empty: "No GPU was allocated.", From: ofLedger,
			Columns: []string{"Tenant", "Namespace", "Model", "Allocated, GPU-hours", "Computing", "Idle", "Use", "Money", "Idle"},
			Rows: rows(u.Rows, func(x model.UseRow) []Cell {
				tenant := word(x.Tenant)
				tenant.Picture = shares(x)
				return []Cell{tenant, word(x.Namespace), word(x.Model), digits(x.Allocated), digits(x.Used), digits(x.Idle), share(x.Share), money(x.Money), money(x.Waste)}
			})},
		{Name: "serving", Title: "Inference servers", Columns: []string{"Namespace", "Models", "Tokens written", "Allocated, GPU-hours", "Money per million tokens"}, From: []query.ID{query.Tokens, query.TokensBeyond},
			Rows: rows(u.Serving, func(x model.Serving) []Cell {
				return []Cell{word(x.Namespace), word(x.Models), number(x.Tokens, model.Tokens), digits(x.Allocated), money(x.Cost)}
			})},
	}
}

func pools(all []model.Pool) []Table {
	return []Table{
		{Name: "pools", Title: "Size and cost", Empty: "No pool is known.", From: append([]query.ID{query.PoolNodes, query.PoolPrice, query.GPUs}, ofLedger...),
			Columns: []string{"Pool", "Model", "Class", "Min", "Max", "Mean", "Now", "GPU-hours", "Computing", "Money"},
			Rows: rows(all, func(p model.Pool) []Cell {
				return []Cell{word(p.Pool), word(p.Model), word(p.Class), digits(p.Min), digits(p.Max), digits(p.Mean), digits(p.Now), digits(p.Hours), share(p.Used), money(p.Money)}
			})},
		{Name: "events", Title: "Scaling and failures", Empty: "No pool is known.",
			From:    []query.ID{query.PoolNodes, query.Actions, query.NodeReady, query.Failures, query.Interrupted, query.Backoff},
			Columns: []string{"Pool", "Scale-ups", "Removed", "Repartitions", "Ready, median", "Ready, 95 %", "Failures", "Failed for", "Spot interruptions", "Hours of backoff"},
			Rows: rows(all, func(p model.Pool) []Cell {
				return []Cell{word(p.Pool), digits(p.Added), digits(p.Removed), digits(p.Repartitions), seconds(p.ReadyP50), seconds(p.ReadyP95), digits(p.Failures), word(p.FailedFor), digits(p.Interrupted), digits(p.BackedOff)}
			})},
	}
}

func layouts(m model.MIG) []Table {
	all := []Table{
		{Name: "fragmentation", Title: "Fragmentation at the end of the window", Columns: []string{"Model", "MIG GPUs", "Slices free", "Index"}, From: []query.ID{query.Devices, query.Instances, query.AllocatedTo},
			Rows: rows(m.Fragmentation, func(x model.Fragmentation) []Cell {
				return []Cell{word(x.Model), whole(x.GPUs), whole(x.Free), digits(x.Index)}
			})},
		{Name: "profiles", Title: "Instances by profile", Columns: []string{"Model", "Profile", "Instances", "Allocated", "Allocated, mean"}, From: []query.ID{query.Devices, query.Instances, query.AllocatedTo, query.Allocated},
			Rows: rows(m.Profiles, func(x model.Profile) []Cell {
				return []Cell{word(x.Model), word(x.Profile), whole(x.Instances), whole(x.Allocated), digits(x.Mean)}
			})},
	}
	if m.RightSizeNote == "" {
		return all
	}
	return append(all, Table{Name: "rightsize", Title: "Workloads that fit a smaller slice", Empty: "No workload fits a smaller slice.",
		From:    []query.ID{query.Devices, query.AllocatedTo, query.MemoryP99, query.UseP95, query.InstUseP95},
		Columns: []string{"Workload", "Model", "Allocated", "Fits", "Memory, 99 %", "Use, 95 %", "Evidence, hours", "GPU-hours saved"},
		Rows: rows(m.RightSize, func(x model.RightSize) []Cell {
			return []Cell{word(x.Namespace + "/" + x.Workload), word(x.Model), word(x.From), word(x.To), number(x.Memory, model.Bytes), share(x.Use), digits(x.Evidence), digits(x.Hours)}
		})})
}

func forecasts(f model.Forecast) []Table {
	return []Table{
		{Name: "forecast", Title: "GPUs allocated, at the end of the forecast", Empty: "There is no data for a forecast.", From: ofLedger,
			Columns: []string{"Of", "Limit", "Until", "Expected", "80 %, low", "80 %, high", "95 %, low", "95 %, high", "Error, MAPE", "Against no change, MASE", "In 80 % band", "In 95 % band"},
			Rows: rows(f.Outlooks, func(o model.Outlook) []Cell {
				none := model.Unknown(o.Why)
				until, last := Cell{Text: model.None, Why: o.Why}, model.Band{Low: none, Expected: none, High: none, Low95: none, High95: none}
				if n := len(o.Ahead); n > 0 {
					last = o.Ahead[n-1]
					until = word(Time(last.At))
				}
				return []Cell{word(o.Of), digits(o.Limit), until, digits(last.Expected), digits(last.Low), digits(last.High), digits(last.Low95), digits(last.High95),
					share(o.Error.MAPE), digits(o.Error.MASE), share(o.Error.Coverage), share(o.Error.Wide)}
			})},
	}
}

// hoursOf is the unit of an action's hours.
func hoursOf(a model.Action) string {
	if a.Kind == "raise-hpa" {
		return "hours at the maximum"
	}
	return "GPU-hours"
}

func reliability(r model.Report) []Table {
	x := r.Reliability
	lost := Table{Name: "lost", Title: "GPU-hours lost", Columns: []string{"", "GPU-hours", "Money"}, From: ofLedger, Rows: [][]Cell{
		{word("On sick GPUs and nodes that were not ready"), digits(x.Lost), money(x.Money)},
		{word("Mean between errors that condemn a GPU"), digits(x.MTBF), {Text: "–", Right: true, Money: true}},
	}}
	xids := Table{Name: "xids", Title: "XID errors", Columns: []string{"Code", "Count", "GPUs", "Nodes", "GPU needs a reset or replacement"}, Empty: "There were no XID errors.", From: []query.ID{query.XIDs},
		Rows: rows(x.XIDs, func(e model.XID) []Cell {
			condemned := "no: usually the application's fault"
			if e.Condemned {
				condemned = "yes"
			}
			return []Cell{word(e.Code), digits(e.Count), whole(e.GPUs), word(text.Several(e.Nodes, 6)), word(condemned)}
		})}
	nodes := Table{Name: "sick", Title: "Nodes with sick GPUs", Columns: []string{"Node", "GPU-hours"}, Empty: "No node had a sick GPU.", From: []query.ID{query.SickNodes},
		Rows: rows(x.Nodes, func(n model.SickNode) []Cell { return []Cell{word(n.Node), digits(n.Hours)} })}
	if x.Missing != "" {
		return []Table{lost}
	}
	return []Table{lost, xids, nodes}
}

func methods(r model.Report) Section {
	lines := append(slices.Clone(r.Methods.Text), "Steps: "+r.Methods.Steps+".", fmt.Sprintf("Made by gpuscale-report %s at %s UTC.", r.Version, Time(r.Generated)))
	return Section{"A", "methods", "Methods", lines, []Table{{Name: "queries", Title: "Queries", Columns: []string{"What", "Step", "PromQL"},
		Rows: rows(r.Methods.Queries, func(q model.Query) []Cell {
			return []Cell{word(q.What), word(q.Step), {Text: text.Lines(q.PromQL), Code: true}}
		})}}}
}
