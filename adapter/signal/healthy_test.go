package signal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// scrapedEvery writes values as a server that is scraped at an interval has them, with
// one scrape missed: not made, or failed, which Prometheus records as the series' end.
func scrapedEvery(interval time.Duration, scrapes int, missed string, value func(i int) float64) string {
	var b strings.Builder
	for i := range scrapes {
		if i == scrapes*5/8 {
			b.WriteString(missed + " ")
		} else {
			fmt.Fprintf(&b, "%g ", value(i))
		}
		b.WriteString(strings.Repeat("_ ", int(interval/step)-1))
	}
	return b.String()
}

// A scrape of up to two minutes that is missed once refuses no signal, those of a
// window and those that are declared included.
func TestOneScrapeMissedRefusesNothing(t *testing.T) {
	const pod, idle, tgi = `{namespace="chat",pod="a",model_name="m",engine="0"`, `{namespace="idle",pod="a",model_name="m",engine="0"`, `{namespace="tgi",pod="a"`
	intervals, refresh := []time.Duration{60 * time.Second, 120 * time.Second}, 30*time.Second
	if testall.Enabled() {
		intervals, refresh = append(intervals, 15*time.Second, 30*time.Second), 15*time.Second
	}
	for _, interval := range intervals {
		for _, missed := range []string{"_", "stale"} {
			series := func(value func(i int) float64) string {
				return scrapedEvery(interval, int(20*time.Minute/interval)+1, missed, value)
			}
			flat := func(v float64) string { return series(func(int) float64 { return v }) }
			growing := series(func(i int) float64 { return 10 * float64(i) })
			m := load(t, `
				vllm:num_requests_waiting`+pod+`} `+flat(3)+`
				vllm:num_requests_running`+pod+`} `+flat(1)+`
				vllm:request_queue_time_seconds_sum`+pod+`} `+growing+`
				vllm:request_queue_time_seconds_count`+pod+`} `+growing+`
				vllm:time_to_first_token_seconds_bucket`+pod+`,le="0.1"} `+flat(0)+`
				vllm:time_to_first_token_seconds_bucket`+pod+`,le="0.2"} `+growing+`
				vllm:time_to_first_token_seconds_bucket`+pod+`,le="+Inf"} `+growing+`
				vllm:num_requests_waiting`+idle+`} `+flat(0)+`
				vllm:num_requests_running`+idle+`} `+flat(0)+`
				vllm:time_to_first_token_seconds_bucket`+idle+`,le="0.2"} `+flat(7)+`
				vllm:time_to_first_token_seconds_bucket`+idle+`,le="+Inf"} `+flat(7)+`
				tgi_batch_max_total_tokens`+tgi+`} `+flat(16000))
			for name, values := range map[string]map[string]float64{
				"queue_depth": {"chat": 3, "tgi": 0}, "requests_running": {"chat": 1}, "queue_time_mean": {"chat": 1},
				"ttft_p95": {"chat": .195, "idle": 0},
			} {
				rule := of(builtin(t, name), metric.ServerVLLM, metric.ServerTGI)
				rule.MaxAge, rule.Follow = 45*time.Second, 16*time.Second
				table := NewTable(rule)
				for after := 7*time.Minute + 3*time.Second; after < 18*time.Minute; after += refresh {
					var now time.Time
					table, _, now = ask(t, m, table, after)
					for namespace, want := range values {
						a, err := table.Pod(Key{namespace, "a"}, anything, now)
						wants(t, fmt.Sprintf("%s of %s, scraped each %s, one is %q, after %s", name, namespace, interval, missed, after), want, a, err)
					}
				}
			}
		}
	}
}

// A wide window keeps no value alive: it is as old as its newest sample.
func TestAWideWindowKeepsNothingAlive(t *testing.T) {
	rule := builtin(t, "ttft_p95")
	rule.MaxAge = time.Minute
	m := load(t, firstTokenLoad("0x48 _x24", "1x48 _x24", "0+10x48 _x24"))
	table, _, now := ask(t, m, NewTable(rule), 48*step)
	if _, err := table.Pod(Key{"chat", "a"}, anything, now); err != nil {
		t.Fatal(err)
	}
	table, _, now = ask(t, m, table, 66*step)
	a, err := table.Pod(Key{"chat", "a"}, anything, now)
	wants(t, "not scraped for a minute and a half", none, a, err)
}

// Models are unloaded and Ray's replicas move while their server is scraped: what a
// later scrape lacks has ended. What no later scrape shows, and what is there without a
// number, is silent.
func TestPartsThatComeAndGo(t *testing.T) {
	const (
		triton = `nv_inference_pending_request_count{namespace="chat",pod="a",instance="x",model="m",version=`
		ray    = `ray_vllm_num_requests_waiting{namespace="chat",pod="a",model_name="m",engine="0",ReplicaId=`
	)
	for name, c := range map[string]struct {
		load string
		want float64
	}{
		"a version is replaced":       {triton + `"1"} 3 3 3 3 3 stale` + "\n" + triton + `"2"} _ _ _ _ _ 5 5 5 5 5`, 5},
		"a replica moves":             {ray + `"x"} 3 3 3 3 3 stale` + "\n" + ray + `"y"} 5x9`, 5},
		"a version has no number":     {triton + `"1"} 3 3 3 3 3 NaN NaN NaN NaN NaN` + "\n" + triton + `"2"} 5x9`, -1},
		"another page is scraped":     {triton + `"1"} 3 3 3 3 3 stale` + "\n" + strings.ReplaceAll(triton, `"x"`, `"y"`) + `"2"} 5x9`, -1},
		"the page was not seen again": {triton + `"1"} 3 3 3 3 3 stale` + "\n" + triton + `"2"} 5 5 5 5 5 _ _ _ _ _`, -1},
	} {
		table, now := askedAfter(t, load(t, c.load), builtin(t, "queue_depth"), 4, 9)
		a, err := table.Pod(Key{"chat", "a"}, anything, now)
		wants(t, name, c.want, a, err)
	}
}

// A picker forgets a flow that has been empty for a while, and at last has none: it adds
// nothing then, and is not silent. Alone it says nothing of the queue, least of all 0.
func TestFlowsThatAreForgotten(t *testing.T) {
	const (
		flow  = `llm_d_epp_flow_control_queue_size{namespace="chat",pod="epp",inference_pool="p",priority="0",fairness_id=`
		ready = "\n" + `inference_pool_ready_pods{namespace="chat",pod="epp",name="p"} `
		wait  = "\n" + `vllm:num_requests_waiting{namespace="chat",pod="a",model_name="m"} 2x9`
	)
	for name, c := range map[string]struct {
		load string
		want float64
	}{
		"one of two":            {flow + `"a"} 3x9` + "\n" + flow + `"b"} 0x4 stale` + ready + "1x9" + wait, 5},
		"the last":              {flow + `"a"} 0x4 stale` + ready + "1x9" + wait, 2},
		"the last, no server":   {flow + `"a"} 0x4 stale` + ready + "1x9", -1},
		"the picker is lost":    {flow + `"a"} 4x4 stale` + ready + "1x4 stale" + wait, -1},
		"a scrape fails":        {flow + `"a"} 4x6 stale` + ready + "1x6 stale" + wait, 6},
		"a flow without number": {flow + `"a"} NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN` + ready + "1x9" + wait, -1},
	} {
		table, now := askedAfter(t, load(t, c.load), builtin(t, "queue_depth"), 4, 6, 9)
		a, err := table.External("chat", anything, now)
		wants(t, name, c.want, a, err)
	}
}

// Clients choose a picker's flows. However many there are, they are one sum, and two
// replicas of Prometheus do not double it.
func TestManyFlowsAreOneSum(t *testing.T) {
	var text strings.Builder
	for n := range 600 {
		for _, replica := range []string{"a", "b"} {
			labels := fmt.Sprintf(`{namespace="chat",pod="epp",inference_pool="p",priority="0",fairness_id="user-%d",outcome="Dispatched",prometheus_replica=%q}`, n, replica)
			fmt.Fprintf(&text, "llm_d_epp_flow_control_queue_size%s 1x30\nllm_d_epp_flow_control_request_queue_duration_seconds_sum%[1]s 0+2x30\n", labels)
			fmt.Fprintf(&text, "llm_d_epp_flow_control_request_queue_duration_seconds_count%s 0+%dx30\n", labels, 1+n%2)
		}
	}
	m := load(t, text.String())
	for name, want := range map[string]float64{"queue_depth": 600, "queue_time_mean": 2 / 1.5} {
		table, now := askedAfter(t, m, of(builtin(t, name), metric.ServerEPP), 30)
		a, err := table.External("chat", anything, now)
		wants(t, name, want, a, err)
	}
}

// The label sets of a rule of the user's own are no parts that could be missing: a
// server that has restarted begins with fewer.
func TestUndeclaredLabelSetsMayEnd(t *testing.T) {
	rule := Rule{Name: "r", Subject: Target, Duplicates: Max, PerPod: Sum, PerWorkload: Sum, Maximum: 100, MaxAge: maxAge, Sources: []Source{{Metric: "requests"}}}
	m := load(t, `
		requests{namespace="chat",pod="a",method="GET"} 3x9
		requests{namespace="chat",pod="a",method="POST"} 2x4 stale`)
	table, now := askedAfter(t, m, rule, 4, 9)
	a, err := table.Pod(Key{"chat", "a"}, anything, now)
	wants(t, "without one of two", 3, a, err)
}

// TGI has no series of its work before the first request; its limit shows that it is
// there.
func TestTGIBeforeItsFirstRequest(t *testing.T) {
	const (
		pod   = `{namespace="chat",pod="a"} `
		limit = `tgi_batch_max_total_tokens` + pod
		queue = "\n" + `tgi_queue_size` + pod
	)
	for name, c := range map[string]struct {
		load string
		want float64 // of the queue
	}{
		"loaded":                 {limit + "16000x9", 0},
		"loading":                {"", -1},
		"after a request":        {limit + "16000x9" + queue + "_ _ _ 2x6", 2},
		"restarted":              {limit + "16000x9" + queue + "4x3 stale", 0},
		"the queue is no number": {limit + "16000x9" + queue + "NaN NaN NaN NaN NaN NaN NaN NaN NaN NaN", -1},
		"not scraped any more":   {limit + "16000x3 _x6", -1},
	} {
		table, now := askedAfter(t, load(t, c.load), builtin(t, "queue_depth"), 3, 9)
		a, err := table.Pod(Key{"chat", "a"}, anything, now)
		wants(t, name, c.want, a, err)
	}
	m := load(t, limit+"16000x9")
	for _, rule := range []string{"requests_running", "queue_time_p95", "queue_time_mean"} {
		table, _, now := ask(t, m, NewTable(builtin(t, rule)), 9*step)
		if a, err := table.Pod(Key{"chat", "a"}, anything, now); err != nil || a.Value != 0 || a.Declared != 1 {
			t.Errorf("%s: %+v, %v", rule, a, err)
		}
	}
}

// One long generation has no first token; where the server counts tokens as it writes
// them, they show that nothing waits.
func TestOneLongGeneration(t *testing.T) {
	const (
		nim    = `{namespace="chat",pod="a",model_name="m"`
		dynamo = `{namespace="chat",pod="a",model="m"`
	)
	for name, text := range map[string]string{
		"nim": `num_requests_waiting` + nim + `} 0x48
			num_requests_running` + nim + `} 1x48
			generation_tokens_total` + nim + `} 0+50x48
			time_to_first_token_seconds_bucket` + nim + `,le="1"} 500x48
			time_to_first_token_seconds_bucket` + nim + `,le="+Inf"} 500x48`,
		"dynamo": `dynamo_frontend_queued_requests` + dynamo + `} 0x48
			dynamo_frontend_inflight_requests` + dynamo + `} 1x48
			dynamo_frontend_output_tokens_total` + dynamo + `} 0+50x48
			dynamo_frontend_time_to_first_token_seconds_bucket` + dynamo + `,le="1"} 500x48
			dynamo_frontend_time_to_first_token_seconds_bucket` + dynamo + `,le="+Inf"} 500x48`,
	} {
		table, _, now := ask(t, load(t, text), NewTable(builtin(t, "ttft_p95")), after4m)
		if a, err := table.Pod(Key{"chat", "a"}, anything, now); err != nil || a.Value != 0 || a.Declared != 1 {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// Two replicas of Prometheus behind one address: that one goes away takes nothing.
func TestOnePrometheusOfTwoGoesAway(t *testing.T) {
	const pod = `{namespace="chat",pod="a",model_name="m",engine="0",prometheus_replica=`
	var text strings.Builder
	for replica, values := range map[string]string{"p-0": " 0+10x48 _x24", "p-1": " 0+10x72"} {
		gauge := strings.NewReplacer("0+10x", "3x").Replace(values)
		fmt.Fprintf(&text, "vllm:num_requests_waiting%s%q}%s\nvllm:num_requests_running%[1]s%[2]q}%[3]s\n", pod, replica, gauge)
		fmt.Fprintf(&text, "vllm:time_to_first_token_seconds_bucket%s%q,le=\"1\"}%s\nvllm:time_to_first_token_seconds_bucket%[1]s%[2]q,le=\"+Inf\"}%[3]s\n", pod, replica, values)
	}
	m := load(t, text.String())
	for name, want := range map[string]float64{"queue_depth": 3, "requests_running": 3, "ttft_p95": .95} {
		table := NewTable(of(builtin(t, name), metric.ServerVLLM))
		for n := 40; n <= 72; n++ {
			var now time.Time
			table, _, now = ask(t, m, table, time.Duration(n)*step)
			a, err := table.Pod(Key{"chat", "a"}, anything, now)
			wants(t, fmt.Sprintf("%s, %d scrapes after one of two went away", name, n-48), want, a, err)
		}
	}
}
