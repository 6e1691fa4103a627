package top_test

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/report/top"
)

// sample reads "value name=value …", the names those of labels.
func sample(value float64, words ...string) prom.Sample {
	m := map[string]string{}
	for _, w := range words {
		name, v, _ := strings.Cut(w, "=")
		m[name] = v
	}
	return prom.Sample{Labels: prom.FromMap(m), Value: value}
}

// node is answers about one node, by series: a busy GPU, an idle one, one with unknown use, a
// free one, a sick one that is allocated, a MIG one with a shared slice, and one without instances.
type node map[string]prom.Vector

func newNode() node {
	slice := []string{"gpu_uuid=mig", "gpu_instance_id=3"}
	a := node{
		"gpu_instance_info":           {sample(1, "node=n1", "gpu=5", "gpu_uuid=mig", "gpu_instance_id=3", "profile=3g.40gb")},
		"gpu_held":                    {sample(1, append(slice, "namespace=chat", "pod=a", "container=main")...), sample(1, append(slice, "namespace=chat", "pod=b", "container=main")...)},
		"gpu_healthy":                 {sample(0, "gpu_uuid=sick"), sample(1, "gpu_uuid=busy")},
		"gpu_attribution_age_seconds": {sample(5, "node=n1")},
		"gpu_busy_ratio":              {sample(0.9, "gpu_uuid=busy"), sample(0.001, "gpu_uuid=idle"), sample(math.NaN(), "gpu_uuid=allocated")},
		"gpu_instance_busy_ratio":     {sample(0.4, slice...)},
		"gpu_idle_seconds":            {sample(4000, "gpu_uuid=idle", "namespace=train", "pod=idle-0", "container=main")},
		"gpu_memory_used_bytes": {sample(12<<30, "gpu_uuid=busy"), sample(10<<30, append(slice, "namespace=chat", "pod=a", "container=main")...),
			sample(4<<30, append(slice, "namespace=chat", "pod=b", "container=main")...)},
		"gpu_memory_total_bytes": {sample(80<<30, "gpu_uuid=busy")},
	}
	for i, id := range []string{"busy", "idle", "allocated", "free", "sick", "mig"} {
		a["gpu_info"] = append(a["gpu_info"], sample(1, "node=n1", "gpu="+string(rune('0'+i)), "gpu_uuid="+id, "model=NVIDIA H100 80GB HBM3", "mig=false"))
		if id != "free" && id != "mig" {
			a["gpu_held"] = append(a["gpu_held"], sample(1, "gpu_uuid="+id, "namespace=train", "pod="+id+"-0", "container=main"))
		}
	}
	a["gpu_info"] = append(a["gpu_info"], sample(1, "node=n1", "gpu=6", "gpu_uuid=empty", "model=NVIDIA H100 80GB HBM3", "mig=true"))
	return a
}

func (n node) Query(_ context.Context, promql string, _ time.Time) (prom.Vector, error) {
	return n[promql[strings.LastIndex(promql, "(")+1:len(promql)-1]], nil
}

func (node) Range(context.Context, string, time.Time, time.Time, time.Duration) ([]prom.Line, error) {
	return nil, nil
}

func read(t *testing.T, n node) (rows []top.Row, complete bool) {
	t.Helper()
	rows, complete, err := top.Read(t.Context(), n, query.Dialect{}, time.Now(), "")
	require.NoError(t, err)
	return rows, complete
}

// TestStates: each GPU and slice has one state, and an unknown value is not zero.
func TestStates(t *testing.T) {
	rows, complete := read(t, newNode())
	if complete {
		t.Error("the use of one GPU is unknown, and all is called known")
	}
	if _, complete, err := top.Read(t.Context(), newNode(), query.Dialect{}, time.Now(), "chat"); err != nil || !complete {
		t.Errorf("%t, %v of a namespace whose GPUs' use is known", complete, err)
	}
	got := map[string]string{}
	var order []string
	for _, r := range rows {
		name := r.UUID + " " + r.Pod
		got[name] = r.State
		order = append(order, name)
	}
	for name, want := range map[string]string{"busy busy-0": "busy", "idle idle-0": "idle", "allocated allocated-0": "allocated", "free ": "free", "sick sick-0": "sick", "mig a": "busy", "mig b": "busy", "empty ": "empty"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	if len(rows) != 8 {
		t.Errorf("%d rows: %v; a GPU with slices is none, and its shared slice has two", len(rows), order)
	}
	// By namespace, the longest idle first; free ones come last.
	if order[0] != "mig a" || order[2] != "idle idle-0" || order[6] != "free " {
		t.Errorf("order %v", order)
	}
	if a, b := rows[0].MemoryUsed, rows[1].MemoryUsed; a == nil || b == nil || *a != 10<<30 || *b != 4<<30 {
		t.Errorf("the pods of the slice have %v and %v of its memory in use", a, b)
	}
	if i := slices.IndexFunc(rows, func(r top.Row) bool { return r.UUID == "allocated" }); rows[i].Busy != nil {
		t.Error("NaN was taken for a number")
	}
}

// TestStale: with stale or missing attribution no GPU is shown as free.
func TestStale(t *testing.T) {
	for name, ages := range map[string]prom.Vector{"old": {sample(301, "node=n1")}, "missing": nil, "of another node": {sample(1, "node=n2")}} {
		a := newNode()
		a["gpu_attribution_age_seconds"] = ages
		rows, complete := read(t, a)
		for _, r := range rows {
			if r.State != "unknown" && r.State != "sick" {
				t.Errorf("%s: %s is %s", name, r.UUID, r.State)
			}
		}
		if complete {
			t.Errorf("%s: all is called known", name)
		}
	}
}

// TestTable: names are whole, and texts of users have no terminal codes.
func TestTable(t *testing.T) {
	idle := 3 * 3600.0
	rows := []top.Row{
		{Namespace: "team-inference", Pod: "llama-3-70b-instruct-7d4b9cf6d8-f5g6h", Node: "ip-10-120-33-8.eu-central-1.compute.internal", GPU: "0", State: "idle", IdleSeconds: &idle},
		{Node: "n1\x1b[31m", GPU: "1", State: "free"},
		{Node: "n2", GPU: "2", State: "empty"},
	}
	var b bytes.Buffer
	require.NoError(t, top.Write(&b, rows, "", "table"))
	if out := b.String(); strings.Contains(out, "\x1b") || !strings.Contains(out, rows[0].Pod+"  "+rows[0].Node+"  0    whole  idle   n/a  3h ") || !strings.Contains(out, "2    none   empty ") {
		t.Errorf("got\n%s", out)
	}
}
