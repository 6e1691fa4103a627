package sources_test

import (
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/sources"
)

func TestTrusted(t *testing.T) {
	const held, leader = ` and on (cluster, job, instance) gpu_info{namespace=~"a|b"})`, ` and on (cluster, job, instance) gpuscale_autoscaler_leader{namespace=~"a|b"})`
	for in, want := range map[string]string{
		`gpu_info`:                                `gpu_info{namespace=~"a|b"}`,
		`gpu_info {}`:                             `gpu_info {namespace=~"a|b"}`,
		`max by (node) (gpu_info{mig="true"})`:    `max by (node) (gpu_info{namespace=~"a|b",mig="true"})`,
		`gpu_info offset 1h unless gpu_info`:      `gpu_info{namespace=~"a|b"} offset 1h unless gpu_info{namespace=~"a|b"}`,
		`absent(gpuscale_autoscaler_leader)`:      `absent(gpuscale_autoscaler_leader{namespace=~"a|b"})`,
		`rate(gpu_xid_errors_total{xid="7"}[1h])`: `rate(gpu_xid_errors_total{namespace=~"a|b",xid="7"}[1h])`,
		`up{job="x"} == 0`:                        `up{namespace=~"a|b",job="x"} == 0`,
		`sum(rate(gpuscale_exporter_read_duration_seconds_bucket[5m])) by (le)`: `sum(rate(gpuscale_exporter_read_duration_seconds_bucket{namespace=~"a|b"}[5m])) by (le)`,
		// The page gives these a namespace.
		`gpu_held`:                           `(gpu_held` + held,
		`sum(gpu_idle_seconds{pod="x"} > 7)`: `sum((gpu_idle_seconds{pod="x"}` + held + ` > 7)`,
		`DCGM_FI_DEV_GPU_TEMP`:               `(DCGM_FI_DEV_GPU_TEMP` + held,
		`sum(rate(gpuscale_autoscaler_gpu_seconds_total[5m]))`:                     `sum((rate(gpuscale_autoscaler_gpu_seconds_total[5m])` + leader + `)`,
		`quantile_over_time(0.5, gpu_idle_seconds[5m:1m])`:                         `quantile_over_time(0.5, (gpu_idle_seconds` + held + `[5m:1m])`,
		`label_replace(gpu_held, "namespace", "$1", "exported_namespace", "(.+)")`: `label_replace((gpu_held` + held + `, "namespace", "$1", "exported_namespace", "(.+)")`,
		// Not ours.
		`vllm:num_requests_waiting + kube_pod_info`: `vllm:num_requests_waiting + kube_pod_info`,
	} {
		got, err := sources.Trusted(in, `namespace=~"a|b"`)
		if err != nil || got != want {
			t.Errorf("%s:\n got %s, %v\nwant %s", in, got, err, want)
		}
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(got); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
	if _, err := sources.Trusted(`gpu_info{`, sources.Matcher); err == nil {
		t.Error("a broken expression is accepted")
	}
}
