package main

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/plan"
)

// fullPlan has an action of every verb.
func fullPlan(t *testing.T) plan.Plan {
	t.Helper()
	at := time.Date(2026, 11, 21, 10, 0, 0, 500, time.FixedZone("CET", 3600))
	table, _ := mig.ForModel("H100-80GB")
	layout := func(text string) mig.Layout {
		l, err := mig.ParseLayout(table, text)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	before, target := layout("1g.10gb@0 1g.10gb@1"), layout("3g.40gb@0 3g.40gb@4")
	steps, err := mig.Diff(before, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	stamps := func(name string) []plan.Stamp { return []plan.Stamp{{Name: name, At: at}} }
	return plan.Plan{
		At: at,
		Actions: []plan.Action{
			{Verb: plan.ScaleUp, Pool: "p", To: 2, Reason: plan.NoFreeSlice, Detail: "2 < 3", For: []string{"chat/a"}, Cost: 4},
			{Verb: plan.Repartition, Pool: "p", Node: "n", Model: "H100-80GB", Before: before, Target: target, Steps: steps,
				Operation: "n-0-1", Deadline: at.Add(time.Minute), Reason: plan.NoFreeSlice, For: []string{"chat/b"}, Cost: 0.25},
			{Verb: plan.Rollback, Node: "n2", Operation: "n2-0-1", Reason: plan.RepartitionOverdue},
			{Verb: plan.Uncordon, Node: "n3", Operation: "drain", Reason: plan.DrainOverdue},
			{Verb: plan.Reclaim, Node: "n4", Pod: "lab/x", Reason: plan.ReclaimBorrowed, Cost: math.Inf(1)},
			{Verb: plan.Drain, Pool: "p", Node: "n5", Deadline: at.Add(time.Hour), Reason: plan.NodeSick},
			{Verb: plan.RemoveNode, Pool: "p", Node: "n6", Reason: plan.NodeEmpty},
			{Verb: plan.Replace, Pool: "p", Node: "n7", Reason: plan.NodeSick},
		},
		Verdicts: []plan.Verdict{{Kind: plan.KindPod, Subject: "chat/a", Reason: plan.WaitUpcomingNode, Detail: "in 30s"}, {Kind: plan.KindNode, Subject: "n", Reason: plan.Steady}},
		State: plan.State{
			LastScaleUp: stamps("p"), LastScaleDown: stamps("q"), LastRepartition: stamps("n"), FreeSince: stamps("n/0"), UnknownSince: stamps("n2"),
			SickSince: stamps("n7"), LastReplace: stamps("r"), LastDrain: stamps("s"),
			Grown: []plan.Growth{{Pool: "p", At: at, Nodes: 2}}, Removed: []plan.Growth{{Pool: "q", At: at, Nodes: 3}}, Failures: []plan.Failure{{Name: "n/0", Count: 3, At: at}},
		},
		Totals: plan.Totals{CostPerHour: 1.5, CostPerHourAfter: math.NaN(), PendingSlices: 14, PendingSlicesLeft: 7},
	}
}

// TestPlanJSON: the JSON format is stable.
func TestPlanJSON(t *testing.T) {
	var got strings.Builder
	if err := writePlanJSON(&got, fullPlan(t)); err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "testdata/plan.json", got.String())
}

// TestEveryFieldIsEncoded: every field of plan.Plan is in the JSON. Changing any leaf of a
// full plan changes the document.
func TestEveryFieldIsEncoded(t *testing.T) {
	encode := func(p plan.Plan) string {
		var b strings.Builder
		if err := writePlanJSON(&b, p); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	leaves := 0
	var walk func(path string, v reflect.Value)
	p := fullPlan(t)
	base := encode(p)
	try := func(path string, v reflect.Value, other any) {
		leaves++
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		v.Set(reflect.ValueOf(other).Convert(v.Type()))
		if encode(p) == base {
			t.Errorf("%s is not in the JSON", path)
		}
		v.Set(was)
	}
	walk = func(path string, v reflect.Value) {
		if at, ok := v.Interface().(time.Time); ok {
			try(path, v, at.Add(time.Hour))
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case reflect.Slice:
			if v.Len() == 0 {
				t.Errorf("%s: fullPlan leaves it empty", path)
				return
			}
			walk(path+"[0]", v.Index(0))
		case reflect.String:
			try(path, v, "other")
		case reflect.Int, reflect.Uint8, reflect.Uint16, reflect.Uint32:
			try(path, v, 6)
		case reflect.Float64:
			try(path, v, 77.5)
		case reflect.Bool:
			try(path, v, !v.Bool())
		default:
			t.Fatalf("%s: unknown kind %s", path, v.Kind())
		}
	}
	// The fields of a repartition, then those of other verbs.
	full := reflect.ValueOf(&p).Elem()
	actions := full.FieldByName("Actions")
	only := func(action int, fields ...string) {
		for _, f := range fields {
			walk("Actions."+f, actions.Index(action).FieldByName(f))
		}
	}
	only(0, "From", "To", "Detail")
	only(1, "Verb", "Pool", "Node", "GPU", "Model", "Before", "Target", "Steps", "Operation", "Deadline", "Reason", "For", "Cost")
	only(4, "Pod")
	if known := 17; reflect.TypeFor[plan.Action]().NumField() != known {
		t.Errorf("plan.Action has %d fields, this test knows %d", reflect.TypeFor[plan.Action]().NumField(), known)
	}
	for i := range full.NumField() {
		if name := full.Type().Field(i).Name; name != "Actions" {
			walk(name, full.Field(i))
		}
	}
	if leaves < 50 {
		t.Errorf("only %d leaves were changed", leaves)
	}
}

// TestHelpNamesEveryField: --help documents every field.
func TestHelpNamesEveryField(t *testing.T) {
	var names func(reflect.Type) []string
	names = func(typ reflect.Type) []string {
		switch {
		case typ.Kind() == reflect.Pointer, typ.Kind() == reflect.Slice:
			return names(typ.Elem())
		case typ.Kind() != reflect.Struct, typ == reflect.TypeFor[time.Time]():
			return nil
		}
		var out []string
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			out = append(append(out, name), names(typ.Field(i).Type)...)
		}
		return out
	}
	help, err := command(t, "plan", "--help")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for _, w := range strings.FieldsFunc(help, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') }) {
		words[w] = true
	}
	fields := names(reflect.TypeFor[planDocument]())
	if len(fields) < 40 {
		t.Fatalf("only %d fields were found", len(fields))
	}
	for _, name := range fields {
		if !words[name] {
			t.Errorf("--help does not name %s", name)
		}
	}
}
