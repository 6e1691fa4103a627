package story

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
)

func TestStoriesInTheRepoParse(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "e2e", "testdata", "*.yaml"))
	require.NoError(t, err)
	found := 0
	for _, f := range files {
		if text, err := os.ReadFile(f); err != nil || !strings.Contains(string(text), "\npools:") {
			continue // not a story
		}
		found++
		if _, err := Load(f); err != nil {
			t.Error(err)
		}
	}
	if found < 2 {
		t.Errorf("%d stories, want the demo and the loop", found)
	}
}

// good is a story that has every field at least once.
const good = `title: all
pools:
- {name: big, product: NVIDIA-H100-80GB-HBM3, gpus: 2, min: 1, max: 4, pricePerHour: 9.84, layout: [{3g.40gb: 2}]}
nodes: [{name: big-a, pool: big, layout: [{3g.40gb: 2}, {1g.10gb: 7}]}]
workloads:
- {namespace: search, name: embed, replicas: 0, resource: nvidia.com/mig-1g.10gb, node: big-a}
- {namespace: chat, name: vllm, resource: nvidia.com/mig-3g.40gb, pool: big, model: chat-13b, load: 1s}
objects: [{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: chat, name: vllm}}]
traffic: {namespace: chat, name: vllm, speed: 20}
expect:
- {name: the queue grows, all: [queue > 16, left > 0], within: 90s}
- {all: [replicas >= 4, nodes == 2], within: 1m}
always: [lost_requests == 0]
`

func TestParse(t *testing.T) {
	got, err := Parse("s.yaml", good)
	require.NoError(t, err)
	want := Story{
		Title: "all",
		Pools: []Pool{{
			Name: "big", Product: "NVIDIA-H100-80GB-HBM3", GPUs: 2, Min: 1, Max: 4, Price: 9.84, Layout: Layout{{"3g.40gb": 2}},
			Boot: 15 * time.Second, IdleAfter: 5 * time.Second, ScaleDownAfter: 20 * time.Second, CPU: 64, MemoryGiB: 512,
		}},
		Nodes: []Node{{"big-a", "big", Layout{{"3g.40gb": 2}, {"1g.10gb": 7}}}},
		Workloads: []Workload{
			{Namespace: "search", Name: "embed", Resource: "nvidia.com/mig-1g.10gb", Count: 1, Node: "big-a", Busy: 0.5, MemoryGiB: 1, Load: 3 * time.Second},
			{Namespace: "chat", Name: "vllm", Replicas: 1, Resource: "nvidia.com/mig-3g.40gb", Count: 1, Pool: "big", Busy: 0.5, MemoryGiB: 1, Model: "chat-13b", Load: time.Second},
		},
		Objects: []Object{{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": Object{"namespace": "chat", "name": "vllm"}}},
		Traffic: &Traffic{"chat", "vllm", 20, 1, 1.6, 8.5, time.Hour},
		Expect: []Expectation{
			{"the queue grows", []Condition{{"queue", ">", 16}, {"left", ">", 0}}, 90 * time.Second},
			{"", []Condition{{"replicas", ">=", 4}, {"nodes", "==", 2}}, time.Minute},
		},
		Always: []Condition{{"lost_requests", "==", 0}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if name := got.Expect[1].String(); name != "replicas >= 4 and nodes == 2" {
		t.Errorf("an expectation without a name is called %q", name)
	}
}

// TestParseNamesTheProblem changes one thing of a good story to something invalid. The error must name
// exactly that.
func TestParseNamesTheProblem(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{good, "", "empty"},
		{good, "title: [", "yaml: line 1: did not find expected node content"},
		{"title: all", "titel: all", "1: field titel not found in type story.Story"},
		{"speed: 20", "sped: 20", "9: field sped not found in type story.traffic"},
		{"gpus: 2", "gpus: two", "3: cannot unmarshal !!str `two` into int"},
		{"load: 1s", "load: 1", "7: cannot unmarshal !!int `1` into time.Duration"},
		{"all\n", "all\ntitle: twice\n", `2: mapping key "title" already defined at line 1`},
		{"title: all", "title: all\n---\ntitle: two", "one file holds one story"},
		{"queue > 16", "moon > 16", `11: "moon > 16" is not: measure op number`},
		{"queue > 16", "queue => 16", `11: "queue => 16" is not: measure op number`},
		{"queue > 16", "queue > NaN", `11: "queue > NaN" is not: measure op number`},
		{"queue > 16", "queue >", `11: "queue >" is not: measure op number`},
		{"queue > 16", "queue > 16 within 3s", `11: "queue > 16 within 3s" is not: measure op number`},
		{"pricePerHour: 9.84", "pricePerHour: .nan", `pools[0].pricePerHour: Invalid value: "NaN": 0 to 1000000`},
		{"gpus: 2", "gpus: 0", `pools[0].gpus: Invalid value: 0: 1 to 16`},
		{"min: 1", "min: 5", `pools[0].max: Invalid value: 4: less than min`},
		{"[{3g.40gb: 2}]}", "[{3g.40gb: 3}]}", `pools[0].layout: Invalid value: [{"3g.40gb":3}]: the MIG devices of GPU 0 do not fit on a H100-80GB`},
		{"[{3g.40gb: 2}]}", "[{3g.40gb: 2}, {}, {}]}", `pools[0].layout: Invalid value: [{"3g.40gb":2},{},{}]: layouts for 3 GPUs, there are 2`},
		{"{1g.10gb: 7}", "{9g.10gb: 7}", `nodes[0].layout: Invalid value: [{"3g.40gb":2},{"9g.10gb":7}]: H100-80GB has no profile "9g.10gb"`},
		{"{1g.10gb: 7}", "{1g.10gb: 0}", `nodes[0].layout: Invalid value: [{"3g.40gb":2},{"1g.10gb":0}]: 1g.10gb: want 1 to 8, not 0`},
		{"{name: big-a, pool: big,", "{name: big-a, pool: huge,", `nodes[0].pool: Invalid value: "huge": no such pool`},
		{"{name: big-a,", "{name: '',", `nodes[0].name: Invalid value: "": every node has a name of its own`},
		{"10gb, node: big-a", "10gb, node: moon", `workloads[0].node: Invalid value: "moon": no such node`},
		{"40gb, pool: big", "40gb, pool: huge", `workloads[1].pool: Invalid value: "huge": no such pool`},
		{"resource: nvidia.com/mig-1g.10gb", "busy: 2", `workloads[0].resource: Invalid value: "": missing`},
		{"resource: nvidia.com/mig-1g.10gb", "resource: x, busy: 2", `workloads[0].busy: Invalid value: "2": 0 to 1`},
		{"chat, name: vllm, resource", "search, name: embed, resource", `workloads[1].name: Invalid value: "embed": every workload has a namespace`},
		{"kind: HorizontalPodAutoscaler, ", "", `objects[0].kind: Invalid value: null: missing`},
		{"chat, name: vllm, speed", "search, name: embed, speed", `traffic.name: Invalid value: "embed": no workload of this name has a model`},
		{"speed: 20", "speed: 0", `traffic.speed: Invalid value: 0: more than 0`},
		{"all: [queue > 16, left > 0],", "", `expect[0].all: Invalid value: null: missing`},
		{", within: 90s", "", `expect[0].within: Invalid value: "0s": more than 0`},
	} {
		if !strings.Contains(good, c.old) {
			t.Fatalf("%q is not in the good story", c.old)
		}
		_, err := Parse("s.yaml", strings.Replace(good, c.old, c.new, 1))
		if err == nil || !strings.HasPrefix(strings.Replace(err.Error(), ".yaml: ", ".yaml:", 1), "story s.yaml:"+c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.new, err, c.want)
		}
	}
}

// TestProgress gives a value of queue and of lost_requests at each time, and expects a number of expectations
// that are met by then.
func TestProgress(t *testing.T) {
	const unknown = -1
	type look struct{ at, queue, lost, met int }
	for name, c := range map[string]struct {
		looks []look
		err   string
	}{
		"in order":          {[]look{{1, 0, 0, 0}, {2, 6, 0, 1}, {11, 0, 0, 2}}, ""},
		"until the last":    {[]look{{10, 0, 0, 0}}, ""},
		"too late":          {[]look{{10, 0, 0, 0}, {11, 3, 0, 0}, {12, 6, 0, 0}}, "at 11s: not within 10s: queue > 5: queue is 3, want > 5"},
		"since the last":    {[]look{{9, 6, 0, 1}, {19, 1, 0, 1}, {20, 1, 0, 1}}, "at 20s: not within 10s: queue == 0: queue is 1, want == 0"},
		"never":             {[]look{{1, 6, 1, 0}}, "at 1s: always lost_requests == 0: lost_requests is 1, want == 0"},
		"unknown meets not": {[]look{{1, unknown, unknown, 0}, {11, unknown, 0, 0}}, "queue is unknown, want > 5"},
	} {
		p := NewProgress(Story{
			Always: []Condition{{"lost_requests", "==", 0}},
			Expect: []Expectation{
				{All: []Condition{{"queue", ">", 5}}, Within: 10 * time.Second},
				{All: []Condition{{"queue", "==", 0}}, Within: 10 * time.Second},
			},
		})
		reported := 0
		for _, l := range c.looks {
			reported += len(p.Observe(time.Duration(l.at)*time.Second, func(m string) (float64, bool) {
				v := map[string]int{"queue": l.queue, "lost_requests": l.lost}[m]
				return float64(v), v != unknown
			}))
			if reported != l.met || p.Done() != (l.met == 2) {
				t.Errorf("%s: at %d s %d met", name, l.at, reported)
			}
		}
		if err := p.Err(); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want %q", name, err, c.err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("pools: [{name: a, product: NVIDIA-H100-80GB-HBM3, gpus: 999999999, layout: [{1g.10gb: 999999999}]}]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("f.yaml", text)
		if err != nil && !strings.HasPrefix(err.Error(), "story f.yaml:") {
			t.Fatalf("the error does not name the file: %v", err)
		}
		if err == nil {
			NewProgress(s).Observe(time.Hour, func(string) (float64, bool) { return 0, false })
		}
	})
}
