package signal

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	k8slabels "k8s.io/apimachinery/pkg/labels"
)

const maxAge = 15 * time.Second

func builtin(t testing.TB, name string) Rule {
	t.Helper()
	for _, r := range Builtin(maxAge) {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no built-in rule %s", name)
	return Rule{}
}

func TestBuiltinRulesAreValidAndParse(t *testing.T) {
	for _, r := range Builtin(maxAge) {
		if err := r.Validate(); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
		for _, promql := range []string{r.Query(), r.Past()} {
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(promql); err != nil {
				t.Errorf("%s: %v", promql, err)
			}
		}
	}
}

// Each case is evaluated by Prometheus's own engine, 20 s after the first
// scrape; want maps pods of namespace "chat" to values.
func TestValues(t *testing.T) {
	cases := []struct {
		name, rule, load string
		want             map[string]float64
		dropped          map[Reason]int
	}{
		{"whole GPU, honor_labels", "gpu_busy", `
			gpu_busy_ratio{job="gpu",instance="n1",node="n1",gpu_uuid="A",namespace="chat",pod="a",container="c"} .1 .2 .3 .4 .5
			gpu_busy_ratio{job="gpu",instance="n1",node="n1",gpu_uuid="B"} 0 0 0 0 0`,
			map[string]float64{"a": .5}, nil},
		{"whole GPU, exported labels", "gpu_busy", `
			gpu_busy_ratio{namespace="gpuscale-system",pod="exporter-1",gpu_uuid="A",exported_namespace="chat",exported_pod="a"} .1 .2 .3 .4 .5
			gpu_busy_ratio{namespace="gpuscale-system",pod="exporter-1",gpu_uuid="B"} 0 0 0 0 0`,
			map[string]float64{"a": .5}, map[Reason]int{Unlabelled: 1}},
		{"the target brings a namespace only", "gpu_busy", `
			gpu_busy_ratio{namespace="gpuscale-system",gpu_uuid="A",exported_namespace="chat",pod="a"} 0 0 0 0 .5`,
			map[string]float64{"a": .5}, nil},
		{"two instances and a GPU average", "gpu_busy", `
			gpu_instance_busy_ratio{gpu_uuid="A",gpu_instance_id="1",namespace="chat",pod="a"} 0 0 0 0 .2
			gpu_instance_busy_ratio{gpu_uuid="A",gpu_instance_id="2",namespace="chat",pod="a"} 0 0 0 0 .4
			gpu_busy_ratio{gpu_uuid="B",namespace="chat",pod="a"} 0 0 0 0 .9`,
			map[string]float64{"a": .5}, nil},
		{"shares add up", "gpu_share", `
			gpu_share_ratio{gpu_uuid="A",gpu_instance_id="1",namespace="chat",pod="a"} 0 0 0 0 .25
			gpu_share_ratio{gpu_uuid="B",gpu_instance_id="1",namespace="chat",pod="a"} 0 0 0 0 .5`,
			map[string]float64{"a": .75}, nil},
		{"duplicate with a zero", "gpu_busy", `
			gpu_busy_ratio{job="one",gpu_uuid="A",namespace="chat",pod="a"} 0 0 0 0 .5
			gpu_busy_ratio{job="two",gpu_uuid="A",namespace="chat",pod="a"} 0 0 0 0 0`,
			map[string]float64{"a": .5}, nil},
		{"memory ratio", "gpu_memory_used_ratio", `
			gpu_memory_used_bytes{gpu_uuid="A",namespace="chat",pod="a"} 0 0 0 0 10
			gpu_memory_total_bytes{gpu_uuid="A",namespace="chat",pod="a"} 40 40 40 40 40
			gpu_memory_used_bytes{gpu_uuid="B",namespace="chat",pod="b"} 0 0 0 0 10
			gpu_memory_total_bytes{gpu_uuid="B",namespace="chat",pod="b"} 0 0 0 0 0
			gpu_memory_used_bytes{gpu_uuid="C",namespace="chat",pod="c"} 0 0 0 0 10`,
			map[string]float64{"a": .25}, map[Reason]int{Infinite: 1}},
		{"engines of one pod add up, scrapes of one engine do not", "queue_depth", `
			vllm:num_requests_waiting{job="a",model_name="m",engine="0",namespace="chat",pod="a"} 0 0 0 0 3
			vllm:num_requests_waiting{job="a",model_name="m",engine="1",namespace="chat",pod="a"} 0 0 0 0 4
			vllm:num_requests_waiting{job="b",model_name="m",engine="1",namespace="chat",pod="a"} 0 0 0 0 4`,
			map[string]float64{"a": 7}, nil},
		{"a new name wins over the old one, pod by pod", "kv_cache_usage", `
			vllm:kv_cache_usage_perc{model_name="m",namespace="chat",pod="a"} 0 0 0 0 .5
			vllm:gpu_cache_usage_perc{model_name="m",namespace="chat",pod="a"} 0 0 0 0 .1
			vllm:gpu_cache_usage_perc{model_name="m",namespace="chat",pod="b"} 0 0 0 0 .3
			ray_vllm_kv_cache_usage_perc{model_name="m",namespace="chat",pod="c"} 0 0 0 0 .7`,
			map[string]float64{"a": .5, "b": .3, "c": .7}, nil},
		{"a target's own labels are about the target", "queue_depth", `
			vllm:num_requests_waiting{model_name="m",namespace="chat",pod="a",exported_pod="liar",exported_namespace="other"} 0 0 0 0 3`,
			map[string]float64{"a": 3}, nil},
		{"NaN and infinities", "queue_depth", `
			vllm:num_requests_waiting{namespace="chat",pod="a"} 5 5 5 5 NaN
			vllm:num_requests_waiting{namespace="chat",pod="b"} 5 5 5 5 Inf
			vllm:num_requests_waiting{namespace="chat",pod="c"} 5 5 5 5 -Inf
			vllm:num_requests_waiting{namespace="chat",pod="d"} 5 5 5 5 6`,
			map[string]float64{"d": 6}, map[Reason]int{NotANumber: 1, Infinite: 2}},
		{"absurd and negative", "queue_depth", `
			vllm:num_requests_waiting{namespace="chat",pod="a"} 5 5 5 5 1e300
			vllm:num_requests_waiting{namespace="chat",pod="b"} 5 5 5 5 -1`,
			nil, map[Reason]int{OutOfRange: 2}},
		{"a percentage is no ratio", "gpu_busy", `
			gpu_busy_ratio{gpu_uuid="A",namespace="chat",pod="a"} 0 0 0 0 87`,
			nil, map[Reason]int{OutOfRange: 1}},
		{"the real age is seen through the lookback", "queue_depth", `
			vllm:num_requests_waiting{namespace="chat",pod="a"} 5 _ _ _ _
			vllm:num_requests_waiting{namespace="chat",pod="b"} 5 5 _ _ _`,
			map[string]float64{"b": 5}, map[Reason]int{Stale: 1}},
		{"labels lost", "queue_depth", `
			vllm:num_requests_waiting{namespace="chat"} 5 5 5 5 5
			vllm:num_requests_waiting{pod="a"} 5 5 5 5 5
			vllm:num_requests_waiting 5 5 5 5 5`,
			nil, nil},
		{"an ended series is gone at once", "queue_depth", `
			vllm:num_requests_waiting{namespace="chat",pod="a"} 5 5 5 5 stale`,
			nil, nil},
		{"empty", "queue_depth", ``, nil, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			table, dropped, now := ask(t, load(t, c.load), NewTable(builtin(t, c.rule)), 4*step)
			for _, pod := range []string{"a", "b", "c", "d", "liar", "exporter-1", ""} {
				got, err := table.Pod(Key{"chat", pod}, anything, now)
				want, known := c.want[pod]
				if !known {
					want = none
				}
				wants(t, "pod "+pod, want, got, err)
			}
			for _, r := range Reasons() {
				if dropped[r] != c.dropped[r] {
					t.Errorf("dropped for %s: %d, want %d", r, dropped[r], c.dropped[r])
				}
			}
		})
	}
}

func TestAnswerBearsTheOldestSamplesTime(t *testing.T) {
	table, _, now := ask(t, load(t, `
		vllm:num_requests_waiting{namespace="chat",pod="a"} 1 1 1 1 1
		vllm:num_requests_waiting{namespace="chat",pod="b"} 1 1 2 _ _`), NewTable(builtin(t, "queue_depth")), 4*step)
	a, err := table.Pods([]Key{{"chat", "a"}, {"chat", "b"}}, anything, now, "2 pods")
	if err != nil || a.Value != 3 || a.Pods != 2 {
		t.Fatalf("%+v, %v", a, err)
	}
	if age := now.Sub(a.Time); age != 2*step {
		t.Errorf("age %s, want %s", age, 2*step)
	}
}

// A workload's sum without a pod that served a moment ago is smaller than the
// truth: the HPA would scale down on it.
func TestSilenceMakesAWorkloadUnknown(t *testing.T) {
	silences := map[string]string{
		"stale":      `5 5 5 5 5 _ _ _ _ _`,
		"gone":       `5 5 5 5 5 stale _ _ _ _`,
		"NaN":        `5 5 5 5 5 NaN NaN NaN NaN NaN`,
		"infinite":   `5 5 5 5 5 Inf Inf Inf Inf Inf`,
		"from start": `NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN`,
	}
	for name, values := range silences {
		t.Run(name, func(t *testing.T) {
			table, now := askedAfter(t, load(t, `
				vllm:num_requests_waiting{namespace="chat",pod="a"} 4 4 4 4 4 4 4 4 4 4
				vllm:num_requests_waiting{namespace="chat",pod="b"} `+values), builtin(t, "queue_depth"), 4, 9)
			both := []Key{{"chat", "a"}, {"chat", "b"}}
			_, err := table.Pods(both, anything, now, "2 pods of Deployment chat/vllm")
			var no *NoAnswer
			if !errors.As(err, &no) || no.Stale != 1 || !strings.Contains(err.Error(), "1 of 2 pods of Deployment chat/vllm") {
				t.Errorf("workload: %v", err)
			}
			a, err := table.Namespace("chat", anything, now)
			wants(t, "a namespace with a stale pod", none, a, err)
			a, err = among(table, func(pod string) bool { return pod == "a" }).Namespace("chat", anything, now)
			wants(t, "beside a deleted pod", 4, a, err)
			a, err = table.Pod(both[0], anything, now)
			wants(t, "the fresh pod", 4, a, err)
			later, _ := table.Read(nil, Reading{Evaluated: epoch, Now: now.Add(Forget + time.Hour)})
			if len(later.points) != 0 {
				t.Error("silence is remembered for ever")
			}
		})
	}
}

func TestValuesAgeWithoutNewAnswers(t *testing.T) {
	table, _, now := ask(t, load(t, `vllm:num_requests_waiting{namespace="chat",pod="a"} 4 4 4 4 4`), NewTable(builtin(t, "queue_depth")), 4*step)
	k := Key{"chat", "a"}
	if _, err := table.Pod(k, anything, now.Add(maxAge)); err != nil {
		t.Errorf("at its maximum age: %v", err)
	}
	_, err := table.Pod(k, anything, now.Add(maxAge+time.Second))
	if want := "no sample of vllm:num_requests_waiting younger than 15s for Pod chat/a; the newest is 16s old"; err == nil || err.Error() != want {
		t.Errorf("beyond it: %v", err)
	}
}

func TestSelectorsLookAtSeries(t *testing.T) {
	table, _, now := ask(t, load(t, `
		vllm:num_requests_waiting{namespace="chat",pod="a",model_name="x"} 1 1 1 1 1
		vllm:num_requests_waiting{namespace="chat",pod="a",model_name="y"} 2 2 2 2 2
		vllm:num_requests_waiting{namespace="chat",pod="b",model_name="y"} 4 4 4 4 4
		vllm:num_requests_waiting{namespace="other",pod="a",model_name="y"} 8 8 8 8 8`), NewTable(builtin(t, "queue_depth")), 4*step)
	for text, want := range map[string]float64{
		"": 7, "model_name=x": 1, "model_name=y": 6, "model_name in (x,y)": 7, "model_name!=y": 1, "!lora": 7,
		"model_name=z": -1, "namespace=other": -1, "lora": -1, "model_name=y|x": -1, "model_name in (.*)": -1,
	} {
		selector, err := k8slabels.Parse(text)
		if err != nil {
			continue // what Kubernetes refuses never reaches us
		}
		a, err := table.Namespace("chat", selector, now)
		wants(t, text, want, a, err)
	}
}

func TestMilliNeverWrapsNorVanishes(t *testing.T) {
	for v, want := range map[float64]int64{
		0: 0, 1: 1000, .0004: 1, -.0004: -1, .0015: 2, 1e300: math.MaxInt64, -1e300: math.MinInt64,
		math.Inf(1): math.MaxInt64, 9.3e15: math.MaxInt64, MaxValue: MaxValue * 1000,
	} {
		if got, ok := Milli(v); !ok || got != want {
			t.Errorf("Milli(%g) = %d, want %d", v, got, want)
		}
	}
	if _, ok := Milli(math.NaN()); ok {
		t.Error("NaN became a quantity")
	}
}

func TestValidateSaysEverything(t *testing.T) {
	err := Rule{Name: "a b", Sources: []Source{{Metric: "\xff"}}, Minimum: 1, Window: -1}.Validate()
	for _, field := range []string{"name:", "subject:", "duplicates:", "perPod:", "perWorkload:", "maximum:", "maxAge:", "window:", "sources[0].metric:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v lacks %s", err, field)
		}
	}
}

// An adapter that has just started knows the pods that went stale before it
// did, as if it had been there: their want is an error, not a smaller sum.
func TestHistoryHasStalePods(t *testing.T) {
	// a reports until now. b stopped half a minute ago, its target gone; c two
	// minutes ago, its target still failing. d ended twenty minutes ago. e is
	// loading its model and never reported.
	m := load(t, `
		vllm:num_requests_waiting{namespace="chat",pod="a"} 5x300
		vllm:num_requests_waiting{namespace="chat",pod="b"} 7x293 stale
		vllm:num_requests_waiting{namespace="chat",pod="c"} 9x276
		vllm:num_requests_waiting{namespace="chat",pod="d"} 9x60 stale`)
	rule := builtin(t, "queue_depth")
	answer := func(remembers bool, pods ...string) (Answer, error) {
		table, now := begin(t, m, rule, 300*step)
		if !remembers {
			table, _, now = ask(t, m, NewTable(rule), 300*step)
		}
		var keys []Key
		for _, p := range pods {
			keys = append(keys, Key{"chat", p})
		}
		return table.Pods(keys, anything, now, "the pods")
	}
	if a, err := answer(false, "a", "b"); err != nil || a.Value != 5 {
		t.Errorf("the plain query: %v, %v: it is meant to show what History is for", a, err)
	}
	for _, silent := range []string{"b", "c"} {
		var no *NoAnswer
		if a, err := answer(true, "a", silent); !errors.As(err, &no) || no.Stale != 1 {
			t.Errorf("%s is forgotten: %v, %v", silent, a, err)
		}
	}
	if a, err := answer(true, "a", "d", "e"); err != nil || a.Value != 5 || a.Pods != 1 {
		t.Errorf("long ended or never begun: %v, %v", a, err)
	}
	if a, err := answer(true, "a"); err != nil || a.Value != 5 || !a.Time.Equal(epoch.Add(300*step+time.Hour)) {
		t.Errorf("a fresh value is not Query's own: %v, %v", a, err)
	}
}
