package signal

import (
	"strings"
	"testing"
)

// Pages of a tenant's pod, which OWNER names, at which a query about others would fail too: the query leaves them out.
// The cache divides off pages with other faults; TestNoPageChangesAnAnswer of sandbox/hostile shows that no page
// changes another namespace's answers.
func TestPagesThatAQueryLeavesOut(t *testing.T) {
	honest := firstTokenLoad("3x47", "1x47", "0+10x47")
	want := map[string]float64{"queue_depth": 3, "requests_running": 1, "ttft_p95": .195}
	for name, page := range map[string]string{
		"our labels":     "vllm:num_requests_waiting{OWNER,gpuscale_source=\"vllm\",gpuscale_part=\"v0\"} 1e6x47\nvllm:num_requests_waiting{OWNER,gpuscale_part=\"t0\"} 1e6x47\nvllm:num_requests_waiting{OWNER,gpuscale_part=\"v0\"} 1e6x47",
		"evidence twice": "llm_d_epp_ready_endpoints{OWNER,name=\"p\",inference_pool=\"a\"} 0x47\nllm_d_epp_ready_endpoints{OWNER,name=\"p\",inference_pool=\"b\"} 0x47",
		"bounds that are none": `
			vllm:time_to_first_token_seconds_bucket{OWNER,le="1"} 0+9x47
			vllm:time_to_first_token_seconds_bucket{OWNER,le="+Inf"} 0+9x47
			vllm:time_to_first_token_seconds_bucket{OWNER,le="abc"} 1x47
			vllm:time_to_first_token_seconds_bucket{OWNER,le="1e999"} 1x47`,
	} {
		m := load(t, honest+"\n"+strings.ReplaceAll(page, "OWNER", `namespace="evil",pod="e",model_name="m"`))
		for signal, value := range want {
			rule := builtin(t, signal)
			table, _, now := askFor(t, m, NewTable(rule), rule.Query("chat", "evil"), 40*step) // fails on a warning
			a, err := table.External("chat", anything, now)
			wants(t, name+": "+signal, value, a, err)
		}
	}
}

// firstTokenLoad is a pod with a histogram of 10 first tokens in each scrape, up to one scrape, all between 0.1 and 0.2
// seconds, beside its gauges.
func firstTokenLoad(waiting, running, buckets string) string {
	const pod = `{namespace="chat",pod="a",model_name="m"`
	return `vllm:num_requests_waiting` + pod + `} ` + waiting + `
		vllm:num_requests_running` + pod + `} ` + running + `
		vllm:time_to_first_token_seconds_bucket` + pod + `,le="0.1"} 0x48
		vllm:time_to_first_token_seconds_bucket` + pod + `,le="0.2"} ` + buckets + `
		vllm:time_to_first_token_seconds_bucket` + pod + `,le="+Inf"} ` + buckets
}
