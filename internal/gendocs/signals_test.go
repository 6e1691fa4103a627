package main

import (
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/require"
)

// Each built-in rule is described, and each of its series is on the page.
func TestSignalsPageIsComplete(t *testing.T) {
	rules := signal.Builtin(docAge)
	abouts, err := abouts()
	require.NoError(t, err)
	if len(rules) != len(abouts) {
		t.Fatalf("%d rules, %d described", len(rules), len(abouts))
	}
	page := signalsPage(rules, abouts)
	for i, r := range rules {
		if abouts[i].Signal != r.Name || abouts[i].Meaning == "" || abouts[i].Unit == "" || abouts[i].Use == "" || len(abouts[i].Limits) == 0 {
			t.Errorf("rule %s is described as %+v", r.Name, abouts[i])
		}
		_, section, found := strings.Cut(page, "\n## "+r.Name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, s := range r.Sources {
			if !found || !strings.Contains(section, "`"+s.Metric) {
				t.Errorf("%s is not under %s", s.Metric, r.Name)
			}
		}
	}
	for _, target := range []string{
		"p95 of `vllm:time_to_first_token_seconds` over 2m",
		"growth of `nv_inference_queue_duration_us` / `nv_inference_request_success` over 2m × 1e-06",
		"absent: 0 while `llm_d_epp_ready_endpoints` of the same pod is 0",
		"## Why DCGM_FI_DEV_GPU_UTIL is a poor signal",
	} {
		if !strings.Contains(page, target) {
			t.Errorf("the page lacks %s", target)
		}
	}
}
