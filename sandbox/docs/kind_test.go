package docs

import (
	"fmt"
	"strings"
	"testing"
)

// blockOf a page that consists of one.
func blockOf(t *testing.T, text string) Block {
	t.Helper()
	blocks := Parse("x.md", text).Blocks
	if len(blocks) != 1 {
		t.Fatalf("%q has %d blocks", text, len(blocks))
	}
	return blocks[0]
}

func fenced(lang, text string) string { return "```" + lang + "\n" + text + "\n```\n" }

func TestKind(t *testing.T) {
	for _, c := range []struct{ page, want string }{
		{fenced("yaml", "apiVersion: v1\nkind: Pod"), "manifest"},
		{fenced("yaml", "# pod.yaml\napiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod"), "manifest"},
		{fenced("yaml", "# deploy/values.yaml: yours\nadapter: {}"), "file"},
		{fenced("yaml", "adapter: {}"), "ind' is missing"},
		{fenced("yaml", "apiVersion: v1\nkind: Pod\n---\nadapter: {}"), "is missing"},
		{fenced("yaml", "apiVersion: v1\nkind: Pod\nkind: Pod"), "already set"},
		{fenced("yaml", "a: ["), "reading"},
		{fenced("yaml", ""), "nothing in it"},
		{fenced("promql", "up"), "query"},
		{fenced("json", "{}"), "json"},
		{fenced("csv", "a"), "counters"},
		{fenced("console", "$ kubectl"), "commands"},
		{fenced("text", "whatever"), "output"},
		{fenced("", "kubectl get nodes"), "without a language"},
		{fenced("ruby", "x"), `"ruby"`},
		{"    kubectl get nodes\n", "commands"},
		{"    $ anything -x\n    output\n", "commands"},
		{"    {\"a\":1}\n", "json"},
		{"    DCGM_FI_DEV_GPU_UTIL, gauge, x\n", "counters"},
		{"    a ──► b\n", "output"},
		{"    kubctl get nodes -o wide\n", "unknown program"},
	} {
		kind, err := blockOf(t, c.page).Kind()
		if got := fmt.Sprint(kind, err); !strings.Contains(got, c.want) {
			t.Errorf("%q: %s, want %s", c.page, got, c.want)
		}
	}
}

func TestQueries(t *testing.T) {
	for _, c := range []struct{ text, wrong string }{
		{"gpu_busy_ratio > 0.5\nup == 0", ""},
		{"sum by (node) (\n  rate(gpu_busy_seconds_total[5m])\n)\n# a comment\nup", ""},
		{"histogram_quantile(0.9, rate(gpuscale_adapter_query_duration_seconds_bucket{le=\"1\"}[5m]))", ""},
		{`count({__name__="FAMILY"})`, ""},
		{"gpu_busy_ration", "line 2: unknown series gpu_busy_ration"},
		{"up\ngpu_busy_ratio{gpus=\"1\"}", "line 3: gpu_busy_ratio has no label gpus"},
		{"gpu_busy_ratio_bucket", "unknown series"},
		{"sum(gpu_busy_ratio", "line 2: "},
		{"up\nsum(gpu_busy_ratio", "line 3: "},
	} {
		err := blockOf(t, fenced("promql", c.text)).CheckQueries()
		if got := fmt.Sprint(err); c.wrong == "" && err != nil || !strings.Contains(got, c.wrong) {
			t.Errorf("%q: %s, want %q", c.text, got, c.wrong)
		}
	}
}

func TestJSON(t *testing.T) {
	for text, wrong := range map[string]string{
		"{\"a\":\n1}":          "",
		"{\"a\":1}\n{\"b\":2}": "",
		"{\"a\":1}\n{b:2}":     "line 3",
	} {
		err := blockOf(t, fenced("json", text)).CheckJSON()
		if got := fmt.Sprint(err); wrong == "" && err != nil || !strings.Contains(got, wrong) {
			t.Errorf("%q: %s, want %q", text, got, wrong)
		}
	}
}

func TestSeries(t *testing.T) {
	for text, wrong := range map[string]string{
		"gpu_busy_ratio": "", "gpu_busy": "", "gpu_uuid": "", "gpu_throttle_seconds_total{reason}": "", "gpuscale_adapter_query_duration_seconds": "", "nvidia.com/gpu": "",
		`gpuscale_autoscaler_verdicts{kind="pool",reason=~"Frozen|BoundReached"}`: "",
		"gpu_bussy_ratio":                       "unknown series gpu_bussy_ratio",
		"gpu_throttle_seconds_total{cause}":     "has no label cause",
		`gpu_healthy{reason="lost", cause="x"}`: "has no label cause",
	} {
		err := CheckSeries(text)
		if got := fmt.Sprint(err); wrong == "" && err != nil || !strings.Contains(got, wrong) {
			t.Errorf("%s: %s, want %q", text, got, wrong)
		}
	}
}
