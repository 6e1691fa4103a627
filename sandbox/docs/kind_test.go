package docs

import (
	"fmt"
	"strings"
	"testing"
)

// blockOf returns the block of a page that has only one.
func blockOf(t *testing.T, text string) Block {
	t.Helper()
	blocks := parse("x.md", text).Blocks
	if len(blocks) != 1 {
		t.Fatalf("%q has %d blocks", text, len(blocks))
	}
	return blocks[0]
}

func fenced(lang, text string) string { return "```" + lang + "\n" + text + "\n```\n" }

func TestKindOfNone(t *testing.T) {
	for _, c := range []struct{ page, want string }{
		{fenced("yaml", "adapter: {}"), "ind' is missing"},
		{fenced("yaml", "apiVersion: v1\nkind: Pod\nkind: Pod"), "already set"},
		{fenced("yaml", ""), "nothing in it"},
		{fenced("", "kubectl get nodes"), "without a language"},
		{fenced("ruby", "x"), `"ruby"`},
		{"    kubctl get nodes -o wide\n", "unknown program"},
	} {
		if kind, err := blockOf(t, c.page).Kind(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %s %v, want %s", c.page, kind, err, c.want)
		}
	}
}

// TestMistakesWithin: mistakes in queries, in JSON and in series in a sentence are found; "" means no
// mistake.
func TestMistakesWithin(t *testing.T) {
	query := func(text string) error { return blockOf(t, fenced("promql", text)).CheckQueries() }
	document := func(text string) error { return blockOf(t, fenced("json", text)).CheckJSON() }
	for _, c := range []struct {
		check       func(string) error
		text, wrong string
	}{
		{query, "gpu_busy_ratio > 0.5\nup == 0", ""},
		{query, "sum by (node) (\n  rate(gpu_busy_seconds_total[5m])\n)\n# a comment\nup", ""},
		{query, "histogram_quantile(0.9, rate(gpuscale_adapter_query_duration_seconds_bucket{le=\"1\"}[5m]))", ""},
		{query, `count({__name__="FAMILY"})`, ""},
		{query, "gpu_busy_ration", "line 2: unknown series gpu_busy_ration"},
		{query, "up\ngpu_busy_ratio{gpus=\"1\"}", "line 3: gpu_busy_ratio has no label gpus"},
		{query, "gpu_busy_ratio_bucket", "unknown series"},
		{query, "sum(gpu_busy_ratio", "line 2: "},
		{query, "up\nsum(gpu_busy_ratio", "line 3: "},
		{document, "{\"a\":\n1}", ""}, {document, "{\"a\":1}\n{\"b\":2}", ""}, {document, "{\"a\":1}\n{b:2}", "line 3"},
		{checkSeries, "gpu_busy_ratio", ""}, {checkSeries, "gpu_busy", ""}, {checkSeries, "gpu_uuid", ""}, {checkSeries, "nvidia.com/gpu", ""},
		{checkSeries, "gpu_throttle_seconds_total{reason}", ""}, {checkSeries, "gpuscale_adapter_query_duration_seconds", ""},
		{checkSeries, `gpuscale_autoscaler_verdicts{kind="pool",reason=~"Frozen|BoundReached"}`, ""},
		{checkSeries, "gpu_bussy_ratio", "unknown series gpu_bussy_ratio"},
		{checkSeries, "gpu_throttle_seconds_total{cause}", "has no label cause"},
		{checkSeries, `gpu_healthy{reason="lost", cause="x"}`, "has no label cause"},
	} {
		err := c.check(c.text)
		if got := fmt.Sprint(err); c.wrong == "" && err != nil || !strings.Contains(got, c.wrong) {
			t.Errorf("%q: %s, want %q", c.text, got, c.wrong)
		}
	}
}
