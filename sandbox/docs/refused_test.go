package docs

import (
	"fmt"
	"strings"
	"testing"
)

// TestTheJudgesCanSayNo: small pages with one mistake each, before the judges that need
// the cluster and the programs, and one without.
func TestTheJudgesCanSayNo(t *testing.T) {
	b := start(t)
	const pool = "apiVersion: gpuscale.io/v1alpha1\nkind: GPUNodePool\nmetadata: {name: refused}\nspec:\n  min: 0\n  max: 1\n  provider: {kwok: {}}\n  template: {product: x, cards: 1, cpu: \"1\", memory: 1Gi}\n"
	for _, c := range []struct{ name, page, wrong string }{
		{"a field", fenced("yaml", pool+"  maximum: 3"), `unknown field "spec.maximum"`},
		{"a value", fenced("yaml", strings.Replace(pool, "max: 1", "max: -1", 1)), "spec.max"},
		{"a kind", fenced("yaml", strings.Replace(pool, "GPUNodePool", "GPUNodePol", 1)), "GPUNodePol"},
		{"an adapter's key", fenced("yaml", "# adapter.yaml\nintervall: 1s"), `unknown field "intervall"`},
		{"an autoscaler's key", fenced("yaml", "# autoscaler.yaml\npolicy: {maxDrain: 1}"), "maxDrain"},
		{"a chart's value", fenced("yaml", "# values.yaml\nexporter: {enabld: true}"), "enabld"},
		{"a file that nobody reads", fenced("yaml", "# other.yaml\na: 1"), "nobody is known to read"},
		{"a counter", fenced("csv", "DCGM_FI_DEV_NO_SUCH, gauge, nothing."), "DCGM_FI_DEV_NO_SUCH"},
		{"a flag of kubectl", "    kubectl get nodes --outptu wide\n", "no flag --outptu"},
		{"a flag of ours", "    gpuscale-autoscaler explain pod chat/vllm-2 --urll x\n", "no flag --urll"},
		{"an object that is not there", "    kubectl -n chat get deployment llvm\n", `"llvm" not found`},
		{"a command that fails in a pipe", "    kubectl get nothing | head\n", "ends with 1"},
		{"a program without its path in the image", "    kubectl -n gpuscale-system exec POD -- gpuscale-exporter check\n", "not found"},
		{"a port that is not served", "    kubectl -n monitoring port-forward svc/prometheus 9091 &\n", "it ended before"},
		{"a program of others", "    git checkout main\n", "table of what is not run"},
		{"a target of make", "    make demos\n", "no target demos"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Parse("x.md", c.page)
			w, err := b.newTypist(p)
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			if got := fmt.Sprint(w.judge(t.Context(), tree(t, forUsers), p.Blocks[0])); !strings.Contains(got, c.wrong) {
				t.Errorf("%s, want %q", got, c.wrong)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		p := Parse("x.md", fenced("yaml", pool)+"\n    kubectl get gpunodepool refused\n    kubectl get --raw /openapi/v2 | head -c 300\n")
		w, err := b.newTypist(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range p.Blocks {
			if err := w.judge(t.Context(), tree(t, forUsers), block); err != nil {
				t.Error(err)
			}
		}
		w.close()
		if out, err := w.bash(t.Context(), "kubectl get gpunodepool refused"); err == nil {
			t.Errorf("it did not go with the page: %s", out)
		}
	})
}
