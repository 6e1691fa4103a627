package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/query"
)

// Sections lays the report out as numbered sections of tables. The five figures and the
// actions are laid out by the page itself.
func Sections(r model.Report) []Section {
	all := []Section{
		{"0", "answer", "The answer", nil, []Table{quality(r.Answer.Quality)}},
		{"1", "hours", "What became of every GPU-hour", r.Hours.Notes, []Table{hours(r)}},
		{"2", "demand", "Pending demand", lead(r.Demand.Missing), demand(r.Demand)},
		{"3", "use", "By team, namespace and model", lead(r.Use.Missing), use(r.Use)},
		{"4", "pools", "Node pools", nil, pools(r.Pools)},
		{"5", "mig", "MIG and right-sizing", append(lead(r.MIG.Missing), lead(r.MIG.RightSizeNote)...), layouts(r.MIG)},
		{"6", "forecast", "Forecast", lead(r.Forecast.Note), forecasts(r.Forecast)},
		{"7", "actions", "Actions", []string{"Each action names the hours of this window it concerns, and the query that gives them. Savings overlap; do not add them up."}, nil},
		{"8", "reliability", "Reliability", lead(r.Reliability.Missing), reliability(r)},
		methods(r),
	}
	if len(r.Answer.Quality.Unanswered) > 0 {
		all[7].Lead = append(all[7].Lead, "Not all queries were answered (section 0): hours may be too few, and actions may be missing.")
	}
	for i := range all {
		// A table without rows is left out where it has no word for that.
		all[i].Tables = slices.DeleteFunc(all[i].Tables, func(t Table) bool { return len(t.Rows) == 0 && t.Empty == "" })
		for k := range all[i].Tables {
			all[i].Tables[k] = all[i].Tables[k].finish(r)
		}
	}
	return all
}

// lead is a sentence before the tables, or none.
func lead(sentence string) []string {
	if sentence == "" {
		return nil
	}
	return []string{strings.ToUpper(sentence[:1]) + sentence[1:]}
}

// rows has a row for each of some things.
func rows[T any](all []T, row func(T) []Cell) (out [][]Cell) {
	for _, x := range all {
		out = append(out, row(x))
	}
	return out
}

func whole(n int) Cell { return number(model.Known(float64(n)), Count) }

func quality(q model.Quality) Table {
	t := Table{Name: "quality", Title: "Data quality", Columns: columns("", "")}
	add := func(name string, values ...string) {
		t.Rows = append(t.Rows, rows(values, func(v string) []Cell { return []Cell{word(name), word(v)} })...)
	}
	add("Grade", q.Grade)
	add("Record of the window", Share(q.Coverage))
	add("GPU-hours not attributed", Hours(q.Unattributed))
	add("Source", q.Source)
	add("Prices", q.Prices)
	for _, g := range q.Gaps {
		add("No record", Time(g.From)+" to "+Time(g.Until))
	}
	if len(q.Unanswered) > 0 {
		add("Not answered in full", strings.Join(q.Unanswered, ", "))
	}
	add("Problem", q.Problems...)
	return t
}

func hours(r model.Report) Table {
	h, shown := r.Hours, r.Hours.Shown()
	t := Table{Name: "hours", Title: "GPU-hours by place", From: ofLedger, Columns: columns("Place", "GPU-hours>", "Share>", "Money$", "Meaning"), Rows: rows(h.Places, func(p model.Place) []Cell {
		return []Cell{word(p.Name), number(p.Hours, Hours), number(shown[p.Place], model.Tenths), number(p.Money, Money), word(p.Meaning)}
	})}
	t.Rows = append(t.Rows, []Cell{word("Sum"), number(h.Sum, Hours), number(h.Sum.Over(h.Capacity), Share), number(h.Money, Money), word("the capacity is " + Hours(h.Capacity))})
	return t
}

func demand(d model.Demand) []Table {
	if len(d.Waits) == 0 { // unknown without the autoscaler
		return nil
	}
	wait := func(x model.Wait) []Cell {
		return []Cell{word(x.Of), number(x.Count, Count), number(x.P50, Seconds), number(x.P95, Seconds), number(x.P99, Seconds)}
	}
	d.Decision.Of = "until an action for a pod"
	return []Table{
		{Name: "waits", Title: "Time from a pod's creation until it was bound", Empty: "No pod was bound in the window.", Columns: columns("Tenant", "Pods>", "Median>", "95 %>", "99 %>"),
			From: []query.ID{query.PodWait, query.PodWaitNative, query.Decisions, query.DecisionsNative}, Rows: append(rows(d.Waits, wait), wait(d.Decision))},
		{Name: "unmet", Title: "Unserved demand", Empty: "All demand was served.", Columns: columns("Shape", "Reason", "GPU-hours>", "Peak GPUs>"), From: []query.ID{query.Waiting},
			Rows: rows(d.Unmet, func(x model.Unmet) []Cell {
				return []Cell{word(x.Shape), word(x.Reason), number(x.Hours, Hours), number(x.Peak, Count)}
			})},
		{Name: "hpas", Title: "HPAs at their maximum", Empty: "No HPA reached its maximum.", Columns: columns("HPA", "Hours>", "Replicas>", "Limited by"), From: []query.ID{query.HPAAtMax, query.HPALimited},
			Rows: rows(d.HPAs, func(x model.HPA) []Cell {
				return []Cell{word(x.Namespace + "/" + x.Name), number(x.AtMax, Hours), number(x.Max, Count), word(x.Reasons)}
			})},
		{Name: "refused", Title: "Pods pending because of a quota", Empty: "No pod was pending because of a quota.", Columns: columns("Reason", "Pod-hours>"), From: []query.ID{query.Refused},
			Rows: rows(d.Refused, func(x model.Refused) []Cell { return []Cell{word(x.Reason), number(x.PodHours, Hours)} })},
	}
}

func use(u model.Use) []Table {
	return []Table{
		{Name: "tenants", Title: "Quotas, in GPUs, means over the window", Columns: columns("Tenant", "Guaranteed>", "Limit>", "Used>", "Borrowed>", "Lent>", "Pending>"), From: []query.ID{query.Tenants},
			Rows: rows(u.Tenants, func(x model.Tenant) []Cell {
				return []Cell{word(x.Tenant), number(x.Guaranteed, Count), number(x.Limit, Count), number(x.Used, Count), number(x.Borrowed, Count), number(x.Lent, Count), number(x.Pending, Count)}
			})},
		{Name: "use", Title: "Allocated GPU-hours and their use", Empty: "No GPU was allocated.", From: ofLedger,
			Columns: columns("Tenant", "Namespace", "Model", "Allocated, GPU-hours>", "Computing>", "Idle>", "Use>", "Money$", "Idle$"),
			Rows: rows(u.Rows, func(x model.UseRow) []Cell {
				tenant := word(x.Tenant)
				tenant.Picture = shares(x)
				return []Cell{tenant, word(x.Namespace), word(x.Model), number(x.Allocated, Hours), number(x.Used, Hours), number(x.Idle, Hours), number(x.Share, Share), number(x.Money, Money), number(x.Waste, Money)}
			})},
		{Name: "serving", Title: "Inference servers", Columns: columns("Namespace", "Models", "Tokens written>", "Allocated, GPU-hours>", "Money per million tokens$"), From: []query.ID{query.Tokens, query.TokensBeyond},
			Rows: rows(u.Serving, func(x model.Serving) []Cell {
				return []Cell{word(x.Namespace), word(x.Models), number(x.Tokens, Tokens), number(x.Allocated, Hours), number(x.Cost, Money)}
			})},
	}
}

func pools(all []model.Pool) []Table {
	return []Table{
		{Name: "pools", Title: "Size and cost", Empty: "No pool is known.", From: append([]query.ID{query.PoolNodes, query.PoolPrice, query.GPUs}, ofLedger...),
			Columns: columns("Pool", "Model", "Class", "Min>", "Max>", "Mean>", "Now>", "GPU-hours>", "Computing>", "Money$"),
			Rows: rows(all, func(p model.Pool) []Cell {
				return []Cell{word(p.Pool), word(p.Model), word(p.Class), number(p.Min, Count), number(p.Max, Count), number(p.Mean, Count), number(p.Now, Count), number(p.Hours, Hours), number(p.Used, Share), number(p.Money, Money)}
			})},
		{Name: "events", Title: "Scaling and failures", Empty: "No pool is known.",
			From:    []query.ID{query.PoolNodes, query.Actions, query.NodeReady, query.NodeReadyNative, query.Failures, query.Interrupted, query.Backoff},
			Columns: columns("Pool", "Scale-ups>", "Removed>", "Repartitions>", "Ready, median>", "Ready, 95 %>", "Failures>", "Failed for", "Spot interruptions>", "Hours of backoff>"),
			Rows: rows(all, func(p model.Pool) []Cell {
				return []Cell{word(p.Pool), number(p.Added, Count), number(p.Removed, Count), number(p.Repartitions, Count), number(p.ReadyP50, Seconds), number(p.ReadyP95, Seconds), number(p.Failures, Count), word(p.FailedFor), number(p.Interrupted, Count), number(p.BackedOff, Hours)}
			})},
	}
}

func layouts(m model.MIG) []Table {
	all := []Table{
		{Name: "fragmentation", Title: "Fragmentation at the end", Columns: columns("Model", "MIG GPUs>", "Slices free>", "Index>"), From: []query.ID{query.Devices, query.Instances, query.AllocatedTo},
			Rows: rows(m.Fragmentation, func(x model.Fragmentation) []Cell {
				return []Cell{word(x.Model), whole(x.GPUs), whole(x.Free), number(x.Index, Hours)}
			})},
		{Name: "profiles", Title: "Instances by profile", Columns: columns("Model", "Profile", "Instances>", "Allocated>", "Allocated, mean>"), From: []query.ID{query.Devices, query.Instances, query.AllocatedTo, query.Allocated},
			Rows: rows(m.Profiles, func(x model.Profile) []Cell {
				return []Cell{word(x.Model), word(x.Profile), whole(x.Instances), whole(x.Allocated), number(x.Mean, Count)}
			})},
	}
	if m.RightSizeNote == "" {
		return all
	}
	return append(all, Table{Name: "rightsize", Title: "Workloads that fit a smaller slice", Empty: "None, by the evidence required.",
		From:    []query.ID{query.Devices, query.AllocatedTo, query.MemoryP99, query.UseP95, query.InstUseP95},
		Columns: columns("Workload", "Model", "Allocated", "Fits", "Memory, 99 %>", "Use, 95 %>", "Evidence, hours>", "GPU-hours saved>"),
		Rows: rows(m.RightSize, func(x model.RightSize) []Cell {
			return []Cell{word(x.Namespace + "/" + x.Workload), word(x.Model), word(x.From), word(x.To), number(x.Memory, Bytes), number(x.Use, Share), number(x.Evidence, Hours), number(x.Hours, Hours)}
		})})
}

func forecasts(f model.Forecast) []Table {
	return []Table{
		{Name: "forecast", Title: "GPUs allocated, at the end of the forecast", Empty: "There is no data to make a forecast from.", From: ofLedger,
			Columns: columns("Of", "Limit>", "Until", "Expected>", "80 %, low>", "80 %, high>", "95 %, low>", "95 %, high>", "Error, MAPE>", "Against no change, MASE>", "In 80 % band>", "In 95 % band>", "Runs out"),
			Rows: rows(f.Outlooks, func(o model.Outlook) []Cell {
				none := model.Unknown(o.Why)
				until, last := Cell{Text: None, Why: o.Why}, model.Band{Low: none, Expected: none, High: none, Low95: none, High95: none}
				if n := len(o.Ahead); n > 0 {
					last = o.Ahead[n-1]
					until = word(Time(last.At))
				}
				return []Cell{word(o.Of), number(o.Limit, Count), until, number(last.Expected, Count), number(last.Low, Count), number(last.High, Count), number(last.Low95, Count), number(last.High95, Count),
					number(o.Error.MAPE, Share), number(o.Error.MASE, Hours), number(o.Error.Coverage, Share), number(o.Error.Wide, Share), word(o.Exhausts.Text)}
			})},
		{Name: "workloads", Title: "Forecasts of the autoscaler", Columns: columns("Workload", "Low>", "Expected>", "High>", "Past error>"), From: []query.ID{query.Forecasts, query.ForecastErr},
			Rows: rows(f.Workloads, func(x model.Workload) []Cell {
				return []Cell{word(x.Workload), number(x.Low, Count), number(x.Expected, Count), number(x.High, Count), number(x.Error, Share)}
			})},
	}
}

// HoursOf names the unit of an action's hours.
func HoursOf(a model.Action) string {
	if a.Kind == "raise-hpa" {
		return "hours at the maximum"
	}
	return "GPU-hours"
}

func reliability(r model.Report) []Table {
	x := r.Reliability
	lost := Table{Name: "lost", Title: "Lost", Columns: columns("", "GPU-hours>", "Money$"), From: ofLedger, Rows: [][]Cell{
		{word("On sick GPUs and nodes that were not ready"), number(x.Lost, Hours), number(x.Money, Money)},
		{word("Between errors that condemn a GPU"), number(x.MTBF, Hours), {Text: "–"}},
	}}
	xids := Table{Name: "xids", Title: "XID errors", Columns: columns("Code", "Count>", "GPUs>", "Nodes", "Condemns the GPU"), Empty: "None.", From: []query.ID{query.XIDs},
		Rows: rows(x.XIDs, func(e model.XID) []Cell {
			condemned := "no: usually caused by the application"
			if e.Condemned {
				condemned = "yes"
			}
			return []Cell{word(e.Code), number(e.Count, Count), whole(e.GPUs), word(few(e.Nodes)), word(condemned)}
		})}
	nodes := Table{Name: "sick", Title: "Nodes with sick GPUs", Columns: columns("Node", "GPU-hours>"), Empty: "None.", From: []query.ID{query.SickNodes},
		Rows: rows(x.Nodes, func(n model.SickNode) []Cell { return []Cell{word(n.Node), number(n.Hours, Hours)} })}
	if x.Missing != "" && xids.lacking(r) == "" && nodes.lacking(r) == "" {
		return []Table{lost}
	}
	return []Table{lost, xids, nodes}
}

// few names the first of many.
func few(names []string) string {
	const most = 6
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func methods(r model.Report) Section {
	text := append(slices.Clone(r.Methods.Text), "Steps: "+r.Methods.Steps+".", fmt.Sprintf("Made by gpuscale-report %s at %s UTC.", r.Version, Time(r.Generated)))
	return Section{"A", "methods", "Methods", text, []Table{{Name: "queries", Title: "Queries", Columns: columns("What", "Step", "PromQL`"),
		Rows: rows(r.Methods.Queries, func(q model.Query) []Cell { return []Cell{word(q.What), word(q.Step), {Text: Code(q.PromQL)}} })}}}
}
