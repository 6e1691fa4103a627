package signal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// scrapedEvery writes the values of a server that is scraped at an interval, with one scrape missed: it was not made,
// or it failed, which Prometheus records as the series' end.
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

// With scrape intervals of up to two minutes, one missed scrape makes no signal missing, those over a window and those
// with declared defaults included.
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

// Clients choose a picker's flows. Any number of flows is one sum, and two replicas of Prometheus do not double it.
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
		table, _, now := ask(t, m, NewTable(of(builtin(t, name), metric.ServerEPP)), 30*step)
		a, err := table.External("chat", anything, now)
		wants(t, name, want, a, err)
	}
}
