package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gpuscale/gpuscale/autoscaler/explain"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

const crowded = "tick at=2026-11-21T09:00:00Z\npool p max=1 price=2 gpus=1 model=L40S\nnode n1 pool=p\npod a/runs requests=gpu node=n1\npod a/waits requests=gpu pending=1m\n"

// atWork serves /debug of an autoscaler whose last reconcile observed the snapshot.
func atWork(t *testing.T, text string) http.Handler {
	t.Helper()
	snapshot, policy, err := scenario.Parse(text)
	require.NoError(t, err)
	l := reconciled(t, snapshot, policy, nil)
	mux := http.NewServeMux()
	routes(mux, l.State, policy, guard{})
	return mux
}

// TestTheSameWordEverywhere: plan, metric, explanation and Event have the same reason for a
// pending pod, one of docs/reasons.md.
func TestTheSameWordEverywhere(t *testing.T) {
	snapshot, policy, err := scenario.Parse(crowded)
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	l := reconciled(t, snapshot, policy, registry)
	const word = string(plan.PoolAtMax)
	last, _ := l.State.Last()
	if text := planText(last); !strings.Contains(text, "pod a/waits "+word) {
		t.Errorf("the plan: %s", text)
	}
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, fromHere(t, "/metrics"))
	if want := fmt.Sprintf("%s{kind=%q,reason=%q} 1\n", metric.AutoscalerVerdicts.Name, "pod", word); !strings.Contains(page.Body.String(), want) {
		t.Errorf("no %s in the metrics", want)
	}
	d, err := explain.ForPod(snapshot, policy, "a/waits")
	if err != nil || d.Answer.Reason != word || d.Answer.Meaning == "" {
		t.Errorf("the explanation: %+v, %v", d.Answer, err)
	}
	at := slices.IndexFunc(last.Plan.Verdicts, func(v plan.Verdict) bool { return v.Subject == "a/waits" })
	note, warns := explain.Note(last.Plan.Verdicts[at])
	if string(last.Plan.Verdicts[at].Reason) != word || !warns || !strings.Contains(note, d.Answer.WhatToDo) {
		t.Errorf("the Event: %q", note)
	}
	doc, err := os.ReadFile("../docs/reasons.md")
	if err != nil || !strings.Contains(string(doc), "`"+word+"`") {
		t.Errorf("%s is not in docs/reasons.md: %v", word, err)
	}
}

// TestExplainALiveAutoscaler: the output over HTTP is that of the snapshot in a file.
func TestExplainALiveAutoscaler(t *testing.T) {
	server := httptest.NewServer(atWork(t, crowded))
	defer server.Close()
	live, err := runCommand(t, "explain", "pod", "a/waits", "--url", server.URL)
	if err != nil || !strings.Contains(live, "raise max of pool p from 1 to 2") {
		t.Fatalf("%v\n%s", err, live)
	}
	snapshot := file(t, t.TempDir(), "snapshot.txt", crowded)
	if offline, err := runCommand(t, "explain", "pod", "a/waits", "-f", snapshot); err != nil || offline != live {
		t.Errorf("%v, of the file:\n%s\nlive:\n%s", err, offline, live)
	}
	js, err := runCommand(t, "explain", "pod", "a/waits", "-f", snapshot, "-o", "json")
	var d explain.Document
	if err != nil || json.Unmarshal([]byte(js), &d) != nil || d.APIVersion != explain.Version || d.Answer.Reason != string(plan.PoolAtMax) {
		t.Errorf("%v\n%s", err, js)
	}
}

// TestExplainThroughTheAPIServer: without an address the lease names the leader, and the
// API server's proxy forwards the request and the token. A pod that is not in the
// snapshot is looked up.
func TestExplainThroughTheAPIServer(t *testing.T) {
	dir := t.TempDir()
	tokenFile := file(t, dir, "token", "correct-horse-battery")
	debug := atWork(t, crowded)
	mux := http.NewServeMux()
	answer := func(path, body string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(body))
		})
	}
	answer("/apis/coordination.k8s.io/v1/namespaces/gpuscale-system/leases/gpuscale-autoscaler",
		`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","spec":{"holderIdentity":"gpuscale-autoscaler-7d4b9c-xyz_4f2a"}}`)
	answer("/apis/coordination.k8s.io/v1/namespaces/gpuscale-system/leases/unheld",
		`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","spec":{"holderIdentity":""}}`)
	answer("/api/v1/namespaces/a/pods/cpu",
		`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]}}`)
	answer("/api/v1/namespaces/a/pods/gated",
		`{"apiVersion":"v1","kind":"Pod","spec":{"schedulingGates":[{"name":"kueue.x-k8s.io/admission"}],"containers":[{"name":"c"}]}}`)
	mux.HandleFunc("GET /apis/coordination.k8s.io/v1/namespaces/gpuscale-system/leases/expired", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"Unauthorized","code":401,"message":"Unauthorized"}`))
	})
	shown := ""
	mux.HandleFunc("GET /api/v1/namespaces/gpuscale-system/pods/gpuscale-autoscaler-7d4b9c-xyz:9402/proxy/debug/snapshot", func(w http.ResponseWriter, r *http.Request) {
		shown = r.Header.Get(tokenHeader)
		inside := r.Clone(r.Context())
		inside.URL.Path, inside.RemoteAddr, inside.Host = "/debug/snapshot", "127.0.0.1:1", "localhost"
		debug.ServeHTTP(w, inside)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Status","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"+
		"users: [{name: x, user: {}}]\nclusters: [{name: x, cluster: {server: \""+server.URL+"\"}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) (string, error) {
		return runCommand(t, append([]string{"explain", "--kubeconfig", kubeconfig, "--token-file", tokenFile}, args...)...)
	}
	if text, err := ask("pod", "a/waits"); err != nil || !strings.Contains(text, "PoolAtMax") || shown != "correct-horse-battery" {
		t.Errorf("%v, shown %q\n%s", err, shown, text)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"pod", "a/none"}, exitNotFound, "there is no such pod"},
		{[]string{"pod", "a/cpu"}, exitNotFound, "only cpu, memory"},
		{[]string{"pod", "a/gated"}, exitNotFound, "kueue.x-k8s.io/admission"},
		{[]string{"pod", "a/runs"}, exitNotFound, "bound to node n1"},
		{[]string{"pod", "a/waits", "--lease", "unheld"}, exitFailed, "the autoscaler is not running"},
		{[]string{"pod", "a/waits", "--lease", "expired"}, exitFailed, "whose credentials may have expired: Unauthorized"},
		{[]string{"pod", "a/waits", "--lease", "none"}, exitFailed, "--lease"},
		{[]string{"pod", "a/waits", "--port", "1"}, exitFailed, "port-forward pod/gpuscale-autoscaler-7d4b9c-xyz 1"},
	} {
		_, err := ask(c.args...)
		if exitCode(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: code %d, %v; want %d with %q", c.args, exitCode(err), err, c.code, c.says)
		}
	}
}

// TestTheTokenGoesNowhereElse: a redirect does not get the token.
func TestTheTokenGoesNowhereElse(t *testing.T) {
	shown := ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { shown = r.Header.Get(tokenHeader) }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL+"/debug/snapshot", http.StatusFound))
	defer first.Close()
	_, err := fromURL(t.Context(), first.URL, "correct-horse-battery")
	if shown != "" || err == nil || !strings.Contains(err.Error(), "302") {
		t.Errorf("shown %q, err = %v", shown, err)
	}
}

// TestDebugOfAFollower: /debug of a replica that does not lead returns the reason.
func TestDebugOfAFollower(t *testing.T) {
	mux := http.NewServeMux()
	routes(mux, loop.New(loop.Options{}).State, plan.DefaultPolicy(), guard{})
	server := httptest.NewServer(mux)
	_, err := runCommand(t, "explain", "pod", "a/b", "--url", server.URL)
	if err == nil || !strings.Contains(err.Error(), "does not lead") {
		t.Errorf("got %v", err)
	}
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	if _, err = runCommand(t, "explain", "pod", "a/b", "--url", server.URL); exitCode(err) != exitFailed || !strings.Contains(err.Error(), "a web page") {
		t.Errorf("got %v", err)
	}
	server.Close()
	if _, err = runCommand(t, "explain", "pod", "a/b", "--url", server.URL); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("got %v", err)
	}
}

// fullPlan has an action of every verb.
func fullPlan(t *testing.T) plan.Plan {
	t.Helper()
	at := time.Date(2026, 11, 21, 9, 0, 0, 500, time.UTC)
	table, _ := mig.ForModel("H100-80GB")
	layout := func(text string) mig.Layout {
		l, err := mig.ParseLayout(table, text)
		require.NoError(t, err)
		return l
	}
	before, target := layout("1g.10gb@0 1g.10gb@1"), layout("3g.40gb@0 3g.40gb@4")
	steps, err := mig.Diff(before, target, nil)
	require.NoError(t, err)
	stamps := func(name string) plan.Times { return plan.Times{name: at} }
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
		Verdicts:    []plan.Verdict{{Kind: plan.KindPod, Subject: "chat/a", Reason: plan.WaitUpcomingNode, Detail: "in 30s"}, {Kind: plan.KindNode, Subject: "n", Reason: plan.Steady}},
		Nominations: []plan.Nomination{{Pod: "chat/a", Node: "n"}},
		State: plan.State{
			LastScaleUp: stamps("p"), LastScaleDown: stamps("q"), LastRepartition: stamps("n"), FreeSince: stamps("n/0"), UnknownSince: stamps("n2"), ShortSince: stamps("t"),
			SickSince: stamps("n7"), LastReplace: stamps("r"), LastDrain: stamps("s"), LastRegret: stamps("u"),
			Grown: map[string][]plan.Growth{"p": {{At: at, Nodes: 2}}}, Removed: map[string][]plan.Growth{"q": {{At: at, Nodes: 3}}}, Failures: map[string]plan.Failure{"n/0": {Count: 3, At: at}},
		},
		Totals: plan.Totals{CostPerHour: 1.5, CostPerHourAfter: math.NaN(), PendingSlices: 14, PendingSlicesLeft: 7},
	}
}

// TestPlanJSON: the JSON format is stable.
func TestPlanJSON(t *testing.T) {
	var got strings.Builder
	require.NoError(t, writePlanJSON(&got, fullPlan(t)))
	golden.Equal(t, "testdata/plan.json", got.String())
}

// TestEveryFieldIsEncoded: every field of plan.Plan is in the JSON. Changing any leaf of a
// full plan changes the document.
func TestEveryFieldIsEncoded(t *testing.T) {
	encode := func(p plan.Plan) string {
		var b strings.Builder
		require.NoError(t, writePlanJSON(&b, p))
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
		case reflect.Map:
			if v.Len() == 0 {
				t.Errorf("%s: fullPlan leaves it empty", path)
				return
			}
			other := reflect.MakeMap(v.Type())
			try(path, v, other.Interface())
			other.SetMapIndex(v.MapKeys()[0], reflect.Zero(v.Type().Elem()))
			try(path+"'s value", v, other.Interface())
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
	help, err := runCommand(t, "plan", "--help")
	require.NoError(t, err)
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
