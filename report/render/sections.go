package render

import (
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/report/model"
)

// Sections lays the report out as numbered sections of tables. The five figures and the
// actions are laid out by the page itself.
func Sections(r model.Report) []Section {
	all := []Section{answer(r), hours(r), demand(r), use(r), pools(r), migs(r), forecasts(r), actions(r), reliability(r), methods(r)}
	for i := range all {
		for k := range all[i].Tables {
			all[i].Tables[k] = all[i].Tables[k].finish(r)
		}
	}
	return all
}

func answer(r model.Report) Section {
	q := r.Answer.Quality
	d := Table{Name: "quality", Title: "Data quality", Columns: columns("", "")}
	add := func(name, value string) { d.Rows = append(d.Rows, []Cell{word(name), word(value)}) }
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
	for _, p := range q.Problems {
		add("Problem", p)
	}
	return Section{Number: "0", Anchor: "answer", Title: "The answer", Tables: []Table{d}}
}

func hours(r model.Report) Section {
	t := Table{Name: "hours", Title: "GPU-hours by place", Columns: columns("Place", "GPU-hours>", "Share>", "Money$", "Meaning")}
	shown := r.Hours.Shown()
	for _, p := range r.Hours.Places {
		t.Rows = append(t.Rows, []Cell{word(p.Name), number(p.Hours, Hours), number(shown[p.Place], model.Tenths), number(p.Money, Money), word(p.Meaning)})
	}
	t.Rows = append(t.Rows, []Cell{word("Sum"), number(r.Hours.Sum, Hours), number(r.Hours.Sum.Over(r.Hours.Capacity), Share), number(r.Hours.Money, Money), word("the capacity is " + Hours(r.Hours.Capacity))})
	return Section{Number: "1", Anchor: "hours", Title: "What became of every GPU-hour", Lead: r.Hours.Notes, Tables: []Table{t}}
}

func demand(r model.Report) Section {
	d := r.Demand
	s := Section{Number: "2", Anchor: "demand", Title: "Pending demand", Lead: lead(d.Missing)}
	if len(d.Waits) == 0 { // unknown without the autoscaler
		return s
	}
	w := Table{Name: "waits", Title: "Time from a pod's creation until it was bound", Columns: columns("Tenant", "Pods>", "Median>", "95 %>", "99 %>"), Empty: "No pod was bound in the window."}
	add := func(name string, x model.Wait) {
		w.Rows = append(w.Rows, []Cell{word(name), number(x.Count, Count), number(x.P50, Seconds), number(x.P95, Seconds), number(x.P99, Seconds)})
	}
	for _, x := range d.Waits {
		add(x.Of, x)
	}
	add("until an action for a pod", d.Decision)
	u := Table{Name: "unmet", Title: "Unserved demand", Columns: columns("Shape", "Reason", "GPU-hours>", "Peak GPUs>"), Empty: "All demand was served."}
	for _, x := range d.Unmet {
		u.Rows = append(u.Rows, []Cell{word(x.Shape), word(x.Reason), number(x.Hours, Hours), number(x.Peak, Count)})
	}
	h := Table{Name: "hpas", Title: "HPAs at their maximum", Columns: columns("HPA", "Hours>", "Replicas>", "Limited by"), Empty: "No HPA reached its maximum."}
	for _, x := range d.HPAs {
		h.Rows = append(h.Rows, []Cell{word(x.Namespace + "/" + x.Name), number(x.AtMax, Hours), number(x.Max, Count), word(x.Reasons)})
	}
	q := Table{Name: "refused", Title: "Pods pending because of a quota", Columns: columns("Reason", "Pod-hours>"), Empty: "No pod was pending because of a quota."}
	for _, x := range d.Refused {
		q.Rows = append(q.Rows, []Cell{word(x.Reason), number(x.PodHours, Hours)})
	}
	s.Tables = []Table{w, u, h, q}
	return s
}

func lead(sentences ...string) []string {
	var all []string
	for _, s := range sentences {
		if s != "" {
			all = append(all, strings.ToUpper(s[:1])+s[1:])
		}
	}
	return all
}

func use(r model.Report) Section {
	s := Section{Number: "3", Anchor: "use", Title: "By team, namespace and model", Lead: lead(r.Use.Missing)}
	t := Table{Name: "tenants", Title: "Quotas, in GPUs, means over the window", Columns: columns("Tenant", "Guaranteed>", "Limit>", "Used>", "Borrowed>", "Lent>", "Pending>")}
	for _, x := range r.Use.Tenants {
		t.Rows = append(t.Rows, []Cell{word(x.Tenant), number(x.Guaranteed, Count), number(x.Limit, Count), number(x.Used, Count), number(x.Borrowed, Count), number(x.Lent, Count), number(x.Pending, Count)})
	}
	u := Table{Name: "use", Title: "Allocated GPU-hours and their use",
		Columns: columns("Tenant", "Namespace", "Model", "Allocated, GPU-hours>", "Computing>", "Idle>", "Use>", "Money$", "Idle$"), Empty: "No GPU was allocated."}
	for _, x := range r.Use.Rows {
		tenant := word(x.Tenant)
		tenant.Picture = shares(x)
		u.Rows = append(u.Rows, []Cell{tenant, word(x.Namespace), word(x.Model), number(x.Allocated, Hours), number(x.Used, Hours), number(x.Idle, Hours), number(x.Share, Share), number(x.Money, Money), number(x.Waste, Money)})
	}
	if len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t)
	}
	s.Tables = append(s.Tables, u)
	v := Table{Name: "serving", Title: "Inference servers", Columns: columns("Namespace", "Models", "Tokens written>", "Allocated, GPU-hours>", "Money per million tokens$")}
	for _, x := range r.Use.Serving {
		v.Rows = append(v.Rows, []Cell{word(x.Namespace), word(x.Models), number(x.Tokens, Tokens), number(x.Allocated, Hours), number(x.Cost, Money)})
	}
	if len(v.Rows) > 0 {
		s.Tables = append(s.Tables, v)
	}
	return s
}

func pools(r model.Report) Section {
	t := Table{Name: "pools", Title: "Size and cost", Empty: "No pool is known.",
		Columns: columns("Pool", "Model", "Class", "Min>", "Max>", "Mean>", "Now>", "GPU-hours>", "Computing>", "Money$")}
	e := Table{Name: "events", Title: "Scaling and failures", Empty: "No pool is known.",
		Columns: columns("Pool", "Scale-ups>", "Removed>", "Repartitions>", "Ready, median>", "Ready, 95 %>", "Failures>", "Failed for", "Spot interruptions>", "Hours of backoff>")}
	for _, p := range r.Pools {
		t.Rows = append(t.Rows, []Cell{word(p.Pool), word(p.Model), word(p.Class), number(p.Min, Count), number(p.Max, Count), number(p.Mean, Count), number(p.Now, Count), number(p.Hours, Hours), number(p.Used, Share), number(p.Money, Money)})
		e.Rows = append(e.Rows, []Cell{word(p.Pool), number(p.Added, Count), number(p.Removed, Count), number(p.Repartitions, Count), number(p.ReadyP50, Seconds), number(p.ReadyP95, Seconds), number(p.Failures, Count), word(p.FailedFor), number(p.Interrupted, Count), number(p.BackedOff, Hours)})
	}
	return Section{Number: "4", Anchor: "pools", Title: "Node pools", Tables: []Table{t, e}}
}

func migs(r model.Report) Section {
	s := Section{Number: "5", Anchor: "mig", Title: "MIG and right-sizing", Lead: lead(r.MIG.Missing)}
	f := Table{Name: "fragmentation", Title: "Fragmentation at the end", Columns: columns("Model", "MIG GPUs>", "Slices free>", "Index>")}
	for _, x := range r.MIG.Fragmentation {
		f.Rows = append(f.Rows, []Cell{word(x.Model), number(model.Known(float64(x.GPUs)), Count), number(model.Known(float64(x.Free)), Count), number(x.Index, Hours)})
	}
	p := Table{Name: "profiles", Title: "Instances by profile", Columns: columns("Model", "Profile", "Instances>", "Allocated>", "Allocated, mean>")}
	for _, x := range r.MIG.Profiles {
		p.Rows = append(p.Rows, []Cell{word(x.Model), word(x.Profile), number(model.Known(float64(x.Instances)), Count), number(model.Known(float64(x.Allocated)), Count), number(x.Mean, Count)})
	}
	g := Table{Name: "rightsize", Title: "Workloads that fit a smaller slice", Empty: "None, by the evidence required.",
		Columns: columns("Workload", "Model", "Allocated", "Fits", "Memory, 99 %>", "Use, 95 %>", "Evidence, hours>", "GPU-hours saved>")}
	for _, x := range r.MIG.RightSize {
		g.Rows = append(g.Rows, []Cell{word(x.Namespace + "/" + x.Workload), word(x.Model), word(x.From), word(x.To), number(x.Memory, Bytes), number(x.Use, Share), number(x.Evidence, Hours), number(x.Hours, Hours)})
	}
	for _, t := range []Table{f, p} {
		if len(t.Rows) > 0 {
			s.Tables = append(s.Tables, t)
		}
	}
	if r.MIG.RightSizeNote != "" {
		s.Tables = append(s.Tables, g)
		s.Lead = append(s.Lead, r.MIG.RightSizeNote)
	}
	return s
}

func forecasts(r model.Report) Section {
	s := Section{Number: "6", Anchor: "forecast", Title: "Forecast", Lead: lead(r.Forecast.Note)}
	t := Table{Name: "forecast", Title: "GPUs allocated, at the end of the forecast", Empty: "There is no data to make a forecast from.",
		Columns: columns("Of", "Limit>", "Until", "Expected>", "80 %, low>", "80 %, high>", "95 %, low>", "95 %, high>", "Error, MAPE>", "Against no change, MASE>", "In 80 % band>", "In 95 % band>", "Runs out")}
	for _, o := range r.Forecast.Outlooks {
		until, last := Cell{Text: None, Why: o.Why}, model.Band{Low: model.Unknown(o.Why), Expected: model.Unknown(o.Why), High: model.Unknown(o.Why), Low95: model.Unknown(o.Why), High95: model.Unknown(o.Why)}
		if n := len(o.Ahead); n > 0 {
			last = o.Ahead[n-1]
			until = word(Time(last.At))
		}
		t.Rows = append(t.Rows, []Cell{word(o.Of), number(o.Limit, Count), until, number(last.Expected, Count), number(last.Low, Count), number(last.High, Count), number(last.Low95, Count), number(last.High95, Count),
			number(o.Error.MAPE, Share), number(o.Error.MASE, Hours), number(o.Error.Coverage, Share), number(o.Error.Wide, Share), word(o.Exhausts.Text)})
	}
	s.Tables = []Table{t}
	w := Table{Name: "workloads", Title: "Forecasts of the autoscaler", Columns: columns("Workload", "Low>", "Expected>", "High>", "Past error>")}
	for _, x := range r.Forecast.Workloads {
		w.Rows = append(w.Rows, []Cell{word(x.Workload), number(x.Low, Count), number(x.Expected, Count), number(x.High, Count), number(x.Error, Share)})
	}
	if len(w.Rows) > 0 {
		s.Tables = append(s.Tables, w)
	}
	return s
}

func actions(r model.Report) Section {
	s := Section{Number: "7", Anchor: "actions", Title: "Actions",
		Lead: []string{"Each action names the hours of this window it concerns, and the query that gives them. Savings overlap; do not add them up."}}
	if len(r.Answer.Quality.Unanswered) > 0 {
		s.Lead = append(s.Lead, "Not all queries were answered (section 0): hours may be too few, and actions may be missing.")
	}
	return s
}

// HoursOf names the unit of an action's hours.
func HoursOf(a model.Action) string {
	if a.Kind == "raise-hpa" {
		return "hours at the maximum"
	}
	return "GPU-hours"
}

func reliability(r model.Report) Section {
	x := r.Reliability
	s := Section{Number: "8", Anchor: "reliability", Title: "Reliability", Lead: lead(x.Missing)}
	sum := Table{Name: "lost", Title: "Lost", Columns: columns("", "GPU-hours>", "Money$"), Rows: [][]Cell{
		{word("On sick GPUs and nodes that were not ready"), number(x.Lost, Hours), number(x.Money, Money)},
		{word("Between errors that condemn a GPU"), number(x.MTBF, Hours), {Text: "–"}},
	}}
	c := Table{Name: "xids", Title: "XID errors", Columns: columns("Code", "Count>", "GPUs>", "Nodes", "Condemns the GPU"), Empty: "None."}
	for _, e := range x.XIDs {
		condemned := "no: usually caused by the application"
		if e.Condemned {
			condemned = "yes"
		}
		c.Rows = append(c.Rows, []Cell{word(e.Code), number(e.Count, Count), number(model.Known(float64(e.GPUs)), Count), word(few(e.Nodes)), word(condemned)})
	}
	n := Table{Name: "sick", Title: "Nodes with sick GPUs", Columns: columns("Node", "GPU-hours>"), Empty: "None."}
	for _, e := range x.Nodes {
		n.Rows = append(n.Rows, []Cell{word(e.Node), number(e.Hours, Hours)})
	}
	s.Tables = []Table{sum}
	if x.Missing == "" || lacking(r, c.Name) != "" || lacking(r, n.Name) != "" {
		s.Tables = append(s.Tables, c, n)
	}
	return s
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
	t := Table{Name: "queries", Title: "Queries", Columns: columns("What", "Step", "PromQL`")}
	for _, q := range r.Methods.Queries {
		t.Rows = append(t.Rows, []Cell{word(q.What), word(q.Step), {Text: Code(q.PromQL)}})
	}
	text := append([]string{}, r.Methods.Text...)
	text = append(text, "Steps: "+r.Methods.Steps+".", fmt.Sprintf("Made by gpuscale-report %s at %s UTC.", r.Version, Time(r.Generated)))
	return Section{Number: "A", Anchor: "methods", Title: "Methods", Lead: text, Tables: []Table{t}}
}
