package signal

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// hostile are pages that a tenant may write, of the pod that NAMESPACE and evil name.
var hostile = map[string]string{
	"the bounds of a bucket as a gauge's label": `vllm:num_requests_waiting{OWNER,le="abc"} 1x47`,
	"a quantile's label":                        `vllm:time_to_first_token_seconds{OWNER,quantile="NaN"} 1x47`,
	"a histogram as a gauge":                    `vllm:num_requests_waiting{OWNER} {{schema:0 count:1 sum:1 buckets:[1]}}x47`,
	"a gauge as a histogram":                    `vllm:time_to_first_token_seconds{OWNER} 1x47`,
	"a gauge and a histogram in turn":           `vllm:time_to_first_token_seconds{OWNER} 1 {{schema:0 count:1 sum:1 buckets:[1]}} 2 {{schema:0 count:1 sum:1 buckets:[1]}} 3x43`,
	"buckets of custom bounds and others": `
		vllm:time_to_first_token_seconds{OWNER,engine="0"} {{schema:-53 sum:1 count:1 custom_values:[5] buckets:[1]}}+{{schema:-53 sum:1 count:1 custom_values:[5] buckets:[1]}}x47
		vllm:time_to_first_token_seconds{OWNER,engine="0",job="y"} {{schema:0 count:1 sum:1 buckets:[1]}}+{{schema:0 count:1 sum:1 buckets:[1]}}x47`,
	"no bound of infinity":       `vllm:time_to_first_token_seconds_bucket{OWNER,le="1"} 0+1x47`,
	"buckets that fall":          "vllm:time_to_first_token_seconds_bucket{OWNER,le=\"1\"} 0+9x47\nvllm:time_to_first_token_seconds_bucket{OWNER,le=\"+Inf\"} 0+1x47",
	"a bound spelt twice":        "vllm:time_to_first_token_seconds_bucket{OWNER,le=\"1\"} 0+1x47\nvllm:time_to_first_token_seconds_bucket{OWNER,le=\"1.0\"} 0+2x47\nvllm:time_to_first_token_seconds_bucket{OWNER,le=\"+Inf\"} 0+3x47",
	"a counter that resets":      `vllm:time_to_first_token_seconds_bucket{OWNER,le="+Inf"} 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1 9 1`,
	"our labels":                 "vllm:num_requests_waiting{OWNER,gpuscale_source=\"vllm\",gpuscale_part=\"v0\"} 1e6x47\nvllm:num_requests_waiting{OWNER,gpuscale_part=\"t0\"} 1e6x47\nvllm:num_requests_waiting{OWNER,gpuscale_part=\"v0\"} 1e6x47",
	"another pod's name":         `vllm:num_requests_waiting{namespace="evil",pod="a",model_name="m"} 1e6x47`,
	"the pod of a namespace":     `vllm:num_requests_waiting{namespace="evil",pod="a",exported_namespace="chat",exported_pod="a",model_name="m"} 1e6x47`,
	"a GPU of another's":         `gpu_busy_ratio{OWNER,exported_namespace="chat",exported_pod="a",gpu_uuid="A"} 1x47`,
	"no namespace":               `vllm:num_requests_waiting{pod="a",model_name="m"} 1e6x47`,
	"no pod":                     `vllm:num_requests_waiting{namespace="evil"} 1e6x47`,
	"names as OTel writes them":  `{__name__="vllm.num_requests_waiting","k8s.namespace.name"="chat","k8s.pod.name"="a"} 1e6x47`,
	"values of every kind":       `vllm:num_requests_waiting{OWNER} NaN +Inf -Inf 1e300 -5 NaN +Inf -Inf 1e300 -5 NaN +Inf -Inf 1e300 -5x30`,
	"evidence of another's pool": `llm_d_epp_ready_endpoints{OWNER,name="p",inference_pool="chat"} 0x47`,
	"a limit of TGI":             `tgi_batch_max_total_tokens{OWNER} 1x47`,
	"evidence twice":             "llm_d_epp_ready_endpoints{OWNER,name=\"p\",inference_pool=\"a\"} 0x47\nllm_d_epp_ready_endpoints{OWNER,name=\"p\",inference_pool=\"b\"} 0x47",
	"bounds that are none": `
		vllm:time_to_first_token_seconds_bucket{OWNER,le="1"} 0+9x47
		vllm:time_to_first_token_seconds_bucket{OWNER,le="+Inf"} 0+9x47
		vllm:time_to_first_token_seconds_bucket{OWNER,le="abc"} 1x47
		vllm:time_to_first_token_seconds_bucket{OWNER,le="1e999"} 1x47`,
}

// distinguished are the pages whose faults a query leaves out by itself.
var distinguished = []string{"our labels", "evidence twice", "bounds that are none"}

// Whatever a tenant's page has, a query about others is answered as without it; that
// about its own namespace and others may fail, and is then divided.
func TestHostilePagesHurtNoOther(t *testing.T) {
	honest := firstTokenLoad("3x47", "1x47", "0+10x47") + `
		gpu_busy_ratio{namespace="gpuscale-system",pod="x",exported_namespace="chat",exported_pod="a",gpu_uuid="A"} .5x47`
	want := map[string]float64{"queue_depth": 3, "requests_running": 1, "ttft_p95": .195, "gpu_busy": .5}
	failed := 0
	for name, page := range hostile {
		m := load(t, honest+"\n"+strings.ReplaceAll(page, "OWNER", `namespace="evil",pod="e",model_name="m"`))
		for signal, value := range want {
			rule := builtin(t, signal)
			rule.Exporters = []string{"gpuscale-system"}
			table, _, now := askFor(t, m, NewTable(rule), rule.Query("chat"), 40*step) // fails on a warning
			a, err := table.External("chat", anything, now)
			wants(t, name+": "+signal+" of chat", value, a, err)
			vector, err := m.Query(t.Context(), rule.Query("chat", "evil"), epoch.Add(40*step))
			if err != nil {
				if failed++; slices.Contains(distinguished, name) {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			vector = slices.DeleteFunc(vector, func(s prom.Sample) bool { return rule.Namespace(s.Labels) != "chat" })
			now = epoch.Add(40 * step)
			table, _ = NewTable(rule).Read(sampled(vector), Reading{Evaluated: now, Now: now})
			a, err = table.External("chat", anything, now)
			wants(t, name+": "+signal+" of chat, asked together", value, a, err)
		}
	}
	if failed == 0 {
		t.Error("no page makes a query fail: nothing shows that division is needed")
	}
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
