package signal

import (
	"slices"
	"strings"
	"testing"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"
)

// minutes of scrapes: longer than the latency window.
const (
	scraped4m = 48
	after4m   = scraped4m * step
)

var anything = k8slabels.Everything()

func everyone(string) bool { return true }

// among is the table of someone to whom these pods live, since ever.
func among(table *Table, live func(pod string) bool) *Table {
	return table.Among(func(_, pod string) (time.Time, bool) { return time.Time{}, live(pod) })
}

func selecting(t *testing.T, text string) k8slabels.Selector {
	t.Helper()
	s, err := k8slabels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// firstTokenLoad is a pod with a histogram of 10 first tokens a scrape, up to
// a scrape, all between 0.1 and 0.2 seconds, beside its gauges.
func firstTokenLoad(waiting, running, buckets string) string {
	const pod = `{namespace="chat",pod="a",model_name="m"`
	return `vllm:num_requests_waiting` + pod + `} ` + waiting + `
		vllm:num_requests_running` + pod + `} ` + running + `
		vllm:time_to_first_token_seconds_bucket` + pod + `,le="0.1"} 0x48
		vllm:time_to_first_token_seconds_bucket` + pod + `,le="0.2"} ` + buckets + `
		vllm:time_to_first_token_seconds_bucket` + pod + `,le="+Inf"} ` + buckets
}

func tokens(values string) string {
	return `vllm:generation_tokens_total{namespace="chat",pod="a",model_name="m"} ` + values
}

// No first token in the window is no latency. It means that no request waited if
// nothing was there to be done, and nothing at all if something was.
func TestLatencyWithoutTraffic(t *testing.T) {
	cases := []struct {
		name, load string
		want       float64
		declared   int
	}{
		{"traffic", firstTokenLoad("0x48", "1x48", "0+10x48"), .195, 0},
		{"idle", firstTokenLoad("0x48", "0x48", "500x48"), 0, 1},
		{"stuck: one waits and none comes through", firstTokenLoad("1x48", "0x48", "500x48"), -1, 0},
		{"a long generation, no new request", firstTokenLoad("0x48", "1x48", "500x48"), -1, 0},
		{"a long generation, and its tokens", firstTokenLoad("0x48", "1x48", "500x48") + "\n" + tokens("0+50x48"), 0, 1},
		{"tokens, and one waits", firstTokenLoad("1x48", "1x48", "500x48") + "\n" + tokens("0+50x48"), -1, 0},
		{"no more tokens", firstTokenLoad("0x48", "1x48", "500x48") + "\n" + tokens("0+50x20 1000x27"), -1, 0},
		{"busy a minute ago", firstTokenLoad("0x48", "0x35 1 0x11", "500x48"), -1, 0},
		{"the gauges are gone", firstTokenLoad("0x20 stale", "0x20 stale", "500x48"), -1, 0},
		{"the gauges are old", firstTokenLoad("0x40 _x8", "0x40 _x8", "500x48"), -1, 0},
		{"never a request", firstTokenLoad("0x48", "0x48", "0x48"), 0, 1},
		{"traffic in an idle hour's one scrape", firstTokenLoad("0x48", "0x48", "500x40 501x8"), .195, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			table, dropped, now := ask(t, load(t, c.load), NewTable(builtin(t, "ttft_p95")), after4m)
			a, err := table.Pod(Key{"chat", "a"}, anything, now)
			wants(t, c.name, c.want, a, err)
			if a.Declared != c.declared || c.want == none && dropped[NotANumber] != 1 {
				t.Errorf("%+v, dropped %v, want %d declared, or one NaN", a, dropped, c.declared)
			}
		})
	}
}

// A window goes on giving values for as long as it is; they are as old as the
// newest sample in it.
func TestAWindowIsAsOldAsItsNewestSample(t *testing.T) {
	for name, text := range map[string]string{
		"classic": firstTokenLoad("0x48", "1x48", "0+10x44 _x4"),
		"rates": `vllm:request_queue_time_seconds_sum{namespace="chat",pod="a"} 0+1x44 _x4
			vllm:request_queue_time_seconds_count{namespace="chat",pod="a"} 0+2x44 _x4`,
		"native": `vllm:time_to_first_token_seconds{namespace="chat",pod="a"} {{schema:0 count:0 sum:0 buckets:[0]}}+{{schema:0 count:10 sum:10 buckets:[10]}}x44 _x4`,
	} {
		rule, want := builtin(t, "ttft_p95"), 4*step
		if name == "rates" {
			rule = builtin(t, "queue_time_mean")
		}
		rule.MaxAge = time.Minute
		table, _, now := ask(t, load(t, text), NewTable(rule), after4m)
		a, err := table.Pod(Key{"chat", "a"}, anything, now)
		if err != nil || now.Sub(a.Time) != want {
			t.Errorf("%s: age %s, %v, want %s", name, now.Sub(a.Time), err, want)
		}
		rule.MaxAge = 3 * step
		table, dropped, now := ask(t, load(t, text), NewTable(rule), after4m)
		if a, err := table.Pod(Key{"chat", "a"}, anything, now); err == nil || dropped[Stale] != 1 {
			t.Errorf("%s: %+v, dropped %v, want none and one stale", name, a, dropped)
		}
	}
}

// A Prometheus may hold a histogram in classic form, natively (with the server's bounds, where
// it converts, or its own) or both; where both are, one counts. A summary of that name is no
// histogram.
func TestNativeHistograms(t *testing.T) {
	const (
		pod       = `{namespace="chat",pod="a",model_name="m"`
		natively  = pod + `} {{schema:0 count:0 sum:0 buckets:[0 0]}}+{{schema:0 count:10 sum:15 offset:0 buckets:[0 10]}}x48`
		converted = pod + `} {{schema:-53 count:0 sum:0 custom_values:[1 2] buckets:[0 0]}}+{{schema:-53 count:10 sum:15 custom_values:[1 2] buckets:[0 10]}}x48`
		idle      = pod + `} {{schema:0 count:7 sum:9 buckets:[0 7]}}x48`
		mean      = `vllm:request_queue_time_seconds`
		classic   = "\n" + mean + "_sum" + pod + "} 0+40x48\n" + mean + "_count" + pod + "} 0+10x48"
		waiting   = "\nvllm:num_requests_waiting" + pod + "} 0x48"
	)
	for name, c := range map[string]struct {
		rule, text string
		from, to   float64
	}{
		"native":    {"ttft_p95", `vllm:time_to_first_token_seconds` + natively, 1, 2},
		"converted": {"ttft_p95", `vllm:time_to_first_token_seconds` + converted, 1.95, 1.95},
		"both":      {"ttft_p95", `vllm:time_to_first_token_seconds` + natively + "\n" + firstTokenLoad("0x48", "1x48", "0+10x48"), .195, .1951},
		"a summary": {"ttft_p95", firstTokenLoad("0x48", "1x48", "0+10x48") + `
			vllm:time_to_first_token_seconds{namespace="chat",pod="a",quantile="0.95"} 7x48`, .195, .1951},
		"a native mean":    {"queue_time_mean", mean + natively, 1.5, 1.5},
		"a converted mean": {"queue_time_mean", mean + converted, 1.5, 1.5},
		"both means":       {"queue_time_mean", mean + natively + classic, 4, 4},
		"an idle mean":     {"queue_time_mean", mean + idle + waiting, 0, 0},
	} {
		table, _, now := ask(t, load(t, c.text), NewTable(builtin(t, c.rule)), after4m)
		a, err := table.Pod(Key{"chat", "a"}, anything, now)
		if err != nil || a.Value < c.from-1e-9 || a.Value > c.to+1e-9 || !a.Time.Equal(now) {
			t.Errorf("%s: %+v, %v, want a value in [%g, %g]", name, a, err, c.from, c.to)
		}
	}
}

// The replicas of one Prometheus, and two jobs that scrape one server, report
// one thing several times.
func TestDuplicatesMerge(t *testing.T) {
	names := []string{"prometheus_replica", "prometheus", "replica", "__replica__", "job", "receive", "cluster"}
	var queue, busy strings.Builder
	for i, value := range []string{"4", "3"} {
		for _, l := range names {
			label := l + `="` + string(rune('a'+i)) + `"`
			queue.WriteString(`vllm:num_requests_waiting{namespace="chat",pod="a",model_name="m",engine="0",` + label + "} " + value + "x4\n")
			busy.WriteString(`gpu_busy_ratio{namespace="chat",pod="a",gpu_uuid="A",` + label + "} ." + value + "x4\n")
		}
	}
	for rule, c := range map[string]struct {
		load string
		want float64
	}{"queue_depth": {queue.String(), 4}, "gpu_busy": {busy.String(), .4}} {
		table, _, now := ask(t, load(t, c.load), NewTable(builtin(t, rule)), 4*step)
		if table.Series() != 2*len(names) {
			t.Errorf("%s: %d series", rule, table.Series())
		}
		a, err := table.Pod(Key{"chat", "a"}, anything, now)
		if err != nil || a.Value != c.want {
			t.Errorf("%s: %+v, %v, want %v", rule, a, err, c.want)
		}
	}
}

// What a gateway counts beside its servers adds up with them; what it counts
// once more stands in only where they are not there.
func TestGatewaysAndTheirServers(t *testing.T) {
	const (
		server = `vllm:num_requests_running{namespace="chat",pod="a",model_name="m"} `
		front  = `inference_objective_running_requests{namespace="chat",pod="epp",model_name="m"} 9x4` + "\n"
		wait   = `vllm:num_requests_waiting{namespace="chat",pod="a",model_name="m"} 2x4` + "\n"
		held   = `inference_extension_flow_control_queue_size{namespace="chat",pod="epp",model_name="m",inference_pool="p"} 5x4` + "\n"
		router = `vllm:num_requests_running{namespace="chat",pod="router",server="http://10.0.0.1:8000"} 10x4
			vllm:num_requests_running{namespace="chat",pod="router",server="http://10.0.0.2:8000"} 12x4`
	)
	cases := []struct {
		name, rule, load, selector string
		live                       func(string) bool
		want                       float64
	}{
		{"both: the servers count", "requests_running", server + "7x4\n" + front, "model_name=m", everyone, 7},
		{"the gateway by name", "requests_running", server + "7x4\n" + front, "gpuscale_source=epp", everyone, 9},
		{"the servers by name", "requests_running", server + "7x4\n" + front, "gpuscale_source in (vllm,sglang)", everyone, 7},
		{"only the gateway", "requests_running", front, "model_name=m", everyone, 9},
		{"a stale server is no reason to use the gateway", "requests_running", server + "NaN NaN NaN NaN NaN\n" + front, "", everyone, none},
		{"a server that is gone is", "requests_running", server + "NaN NaN NaN NaN NaN\n" + front, "", func(pod string) bool { return pod == "epp" }, 9},
		{"what the gateway holds back comes on top", "queue_depth", wait + held, "model_name=m", everyone, 7},
		{"a router repeats its servers' names", "requests_running", server + "7x4\n" + router, "", everyone, 7},
		{"a router alone", "requests_running", router, "", everyone, 22},
		{"a gateway's own pool", "queue_depth", wait + held, "inference_pool=p", everyone, 5},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			table, _, now := ask(t, load(t, c.load), NewTable(builtin(t, c.rule)), 4*step)
			a, err := among(table, c.live).External("chat", selecting(t, c.selector), now)
			wants(t, c.name, c.want, a, err)
		})
	}
}

// At zero replicas the servers' series are gone. What is kept elsewhere is
// known; what a picker of an empty pool does not have is 0; everything else
// is unknown, and never 0.
func TestAtZeroReplicas(t *testing.T) {
	const (
		queue = `llm_d_epp_flow_control_queue_size{namespace="chat",pod="epp",inference_pool="p",priority="0"} `
		ready = `llm_d_epp_ready_endpoints{namespace="chat",pod="epp",name="p"} `
	)
	cases := []struct {
		name, load, selector string
		want                 float64
		declared             int
	}{
		{"nothing scraped", ``, "", -1, 0},
		{"the picker holds requests back", queue + "3x9\n" + ready + "0x9", "inference_pool=p", 3, 0},
		{"the picker of an empty pool has no queue yet", ready + "0x9", "inference_pool=p", 0, 1},
		{"its queue's series has ended", queue + "3x5 stale\n" + ready + "0x9", "inference_pool=p", 0, 1},
		{"its queue's series is there and broken", queue + "NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN\n" + ready + "0x9", "inference_pool=p", -1, 0},
		{"its queue's series is there and old", queue + "3x4 _x5\n" + ready + "0x9", "inference_pool=p", -1, 0},
		{"another pool's picker says nothing about ours", strings.ReplaceAll(ready, `"p"`, `"other"`) + "0x9", "inference_pool=p", -1, 0},
		{"a label the picker does not have", ready + "0x9", "model_name=m", -1, 0},
		{"the pool is not empty: its servers have series", ready + "2x9", "inference_pool=p", -1, 0},
		{"the picker's target is lost", ready + "0x4 _x5", "inference_pool=p", -1, 0},
		{"the picker is gone", ready + "0x5 stale", "inference_pool=p", -1, 0},
		{"the old name", strings.ReplaceAll(ready, "llm_d_epp_ready_endpoints", "inference_pool_ready_pods") + "0x9", "inference_pool=p", 0, 1},
		{"Dynamo's frontend", `dynamo_frontend_queued_requests{namespace="chat",pod="front",model="m"} 4x9`, "model=m", 4, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			table, now := askedAfter(t, load(t, c.load), builtin(t, "queue_depth"), 4, 9)
			a, err := table.External("chat", selecting(t, c.selector), now)
			wants(t, c.name, c.want, a, err)
			if err == nil && (a.Declared != c.declared || !a.Time.Equal(now)) {
				t.Errorf("%+v, want %d declared", a, c.declared)
			}
		})
	}
}

// A proof of absence ages as any sample does.
func TestAProofOfAbsenceAges(t *testing.T) {
	table, now := askedAfter(t, load(t, `llm_d_epp_ready_endpoints{namespace="chat",pod="epp",name="p"} 0x4`), builtin(t, "queue_depth"), 4)
	for age, want := range map[time.Duration]float64{maxAge: 0, maxAge + time.Second: none} {
		a, err := table.External("chat", anything, now.Add(age))
		wants(t, age.String(), want, a, err)
	}
}

func TestAWorkloadScaledToZero(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, rule := range Builtin(maxAge) {
		a, err := NewTable(rule).AtZero(now, "Deployment chat/vllm, which has no pods")
		amount := slices.Contains([]string{"queue_depth", "requests_running"}, rule.Name)
		if amount && (err != nil || a.Value != 0 || !a.Time.Equal(now)) {
			t.Errorf("%s: %+v, %v, want 0", rule.Name, a, err)
		} else if !amount {
			wants(t, rule.Name+", an average without pods", none, a, err)
		}
	}
}

func TestActivation(t *testing.T) {
	rule := builtin(t, "queue_depth")
	rule.Activation = 5
	for value, want := range map[string]float64{"0": 0, "1": 0, "5": 0, "6": 6, "100": 100} {
		table, _, now := ask(t, load(t, `vllm:num_requests_waiting{namespace="chat",pod="a"} `+value+`x4`), NewTable(rule), 4*step)
		if a, err := table.External("chat", anything, now); err != nil || a.Value != want {
			t.Errorf("%s: external %v, %v, want %v", value, a.Value, err, want)
		}
		if a, err := table.Namespace("chat", anything, now); err != nil || (a.Value != want) != (want == 0 && value != "0") {
			t.Errorf("%s: the namespace itself %v, %v: activation is for external metrics", value, a.Value, err)
		}
	}
}

// An own rule may take any NaN for a number, and absence for one while up is 1.
func TestDeclaredWithoutCatalogue(t *testing.T) {
	one := 1.0
	rule := Rule{
		Name: "backlog", Subject: Target, Duplicates: Max, PerPod: Sum, PerWorkload: Sum, Maximum: 100, MaxAge: maxAge,
		Sources: []Source{{
			Metric: "jobs", Over: "workers", Idle: &Idle{Value: 3},
			Absent: &Absent{Value: 2, While: Series{Metric: "up", Matchers: Matchers{{Label: "job", Op: "=", Value: "queue"}}}, Is: &one},
		}},
	}
	if err := rule.Validate(); err != nil {
		t.Fatal(err)
	}
	table, _, now := ask(t, load(t, `
		jobs{namespace="chat",pod="nan",job="queue"} 0x4
		workers{namespace="chat",pod="nan",job="queue"} 0x4
		up{namespace="chat",pod="nan",job="queue"} 1x4
		jobs{namespace="chat",pod="infinite",job="queue"} 1x4
		workers{namespace="chat",pod="infinite",job="queue"} 0x4
		up{namespace="chat",pod="infinite",job="queue"} 1x4
		up{namespace="chat",pod="absent",job="queue"} 1x4
		up{namespace="chat",pod="down",job="queue"} 0x4
		up{namespace="chat",pod="other",job="web"} 1x4`), NewTable(rule), 4*step)
	for pod, want := range map[string]float64{"nan": 3, "infinite": -1, "absent": 2, "down": -1, "other": -1} {
		a, err := table.Pod(Key{"chat", pod}, anything, now)
		if wants(t, pod, want, a, err); err == nil && a.Declared != 1 {
			t.Errorf("%s: %+v, want one declared", pod, a)
		}
	}
}

// The first query of a rule brings evidence only of now: what was idle nine
// minutes ago may be stuck today.
func TestHistoryProvesNothing(t *testing.T) {
	rule := builtin(t, "ttft_p95")
	gauges := map[string]float64{"0x60": 0, "0x30 stale": -1}
	for values, want := range gauges {
		const pod = `{namespace="chat",pod="a",model_name="m"`
		m := load(t, `vllm:num_requests_waiting`+pod+`} `+values+`
			vllm:num_requests_running`+pod+`} `+values+`
			vllm:time_to_first_token_seconds_bucket`+pod+`,le="0.2"} 5x60
			vllm:time_to_first_token_seconds_bucket`+pod+`,le="+Inf"} 5x60`)
		table, now := begin(t, m, rule, 60*step)
		a, err := table.Pod(Key{"chat", "a"}, anything, now)
		wants(t, "gauges "+values, want, a, err)
	}
	// A picker that was there and is gone.
	queue := builtin(t, "queue_depth")
	m := load(t, `llm_d_epp_ready_endpoints{namespace="chat",pod="epp",name="p"} 0x30 stale`)
	table, now := begin(t, m, queue, 60*step)
	a, err := table.External("chat", anything, now)
	wants(t, "a picker that is gone", none, a, err)
}

// The error names the series of the server in use.
func TestNoAnswerNamesTheSeries(t *testing.T) {
	table, _, now := ask(t, load(t, `
		sglang:num_queue_reqs{namespace="chat",pod="a"} 1x4 _x5
		tgi_queue_size{namespace="chat",pod="b"} NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN`), NewTable(builtin(t, "queue_depth")), 9*step)
	for pod, want := range map[string]string{
		"a": "no sample of sglang:num_queue_reqs younger than 15s for Pod chat/a; the newest is 25s old",
		"b": "no sample of tgi_queue_size younger than 15s for Pod chat/b; 1 are NaN, infinite or outside [0, 1e+09]",
		"c": "no sample of queue_depth (vllm:num_requests_waiting or any of 15 other series) younger than 15s for Pod chat/c",
	} {
		if _, err := table.Pod(Key{"chat", pod}, anything, now); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
