package ledger_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// Shares are in GPUs, the tighter of compute and memory; without a limit it is none, not 0.
func TestShares(t *testing.T) {
	s, _, err := scenario.Parse(`
pool p max=2 gpus=4 model=H100-80GB layout=(3g.40gb@0 3g.40gb@4)
node n pool=p
quota all
quota red guarantee=1 limit=21+16 parent=all
quota blue guarantee=2 parent=all
pod a/x requests=(3g.40gb*2) node=n tenant=red
pod a/y requests=gpu node=n tenant=red
pod a/z requests=gpu tenant=blue
`)
	require.NoError(t, err)
	got := map[string]ledger.Share{}
	for _, one := range ledger.Shares(&s) {
		got[one.Tenant] = one
	}
	if r := got["red"]; r.Guaranteed != 1 || r.Used != 2 || r.Borrowed != 1 || !r.Limited || r.Limit != 2 || r.Pending != 0 {
		t.Errorf("red %+v", r)
	}
	if b := got["blue"]; b.Guaranteed != 2 || b.Used != 0 || b.Lent != 1 || b.Limited || b.Pending != 1 {
		t.Errorf("blue %+v", b)
	}
	if a := got["all"]; a.Guaranteed != 3 || a.Used != 2 || a.Pending != 1 {
		t.Errorf("all %+v", a)
	}
}

// The count of a GPU does not depend on its product, and a part in MiB is a part of the GPU it is
// on: the status matches the planner's decisions.
func TestSharesOfAnyGPU(t *testing.T) {
	s, _, err := scenario.Parse(`
pool pro max=2 gpus=2 model=RTX-PRO-6000-Blackwell-96GB layout=(4g.96gb@0)
pool t4 max=2 gpus=2 model=T4
node n pool=pro
node m pool=t4
quota a guarantee=1
quota b guarantee=1
pod a/x requests=4g.96gb node=n tenant=a
pod b/y requests=(part:core=0:memory-mib=15360) node=m tenant=b
pod b/z requests=1g.24gb tenant=b
`)
	require.NoError(t, err)
	for _, one := range ledger.Shares(&s) {
		if want := map[string]float64{"a": 0, "b": 0.25}[one.Tenant]; one.Used != 1 || one.Borrowed != 0 || one.Pending != want {
			t.Errorf("%+v, want 1 used, none borrowed, %v waiting", one, want)
		}
	}
}

// TestPage: the quotas that docs/quotas.md shows, before and after borrowed GPUs are reclaimed, are those of such
// snapshots.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/quotas.md")
	require.NoError(t, err)
	const fleet = "pool h100 max=1 gpus=8 model=H100-80GB\nnode n pool=h100\nquota research\nquota chat guarantee=4 parent=research\nquota vision guarantee=4 parent=research\n"
	for _, pods := range []string{
		"pod chat/p-{0..6} requests=gpu node=n tenant=chat",
		"pod chat/p-{0..3} requests=gpu node=n tenant=chat\npod chat/p-{4..6} requests=gpu tenant=chat\npod vision/p-{0..3} requests=gpu node=n tenant=vision",
	} {
		s, _, err := scenario.Parse(fleet + pods)
		require.NoError(t, err)
		shares := ledger.Shares(&s)
		slices.SortFunc(shares, func(a, b ledger.Share) int { return cmp.Compare(a.Tenant, b.Tenant) })
		table := ""
		for _, q := range shares {
			parent := map[string]string{"chat": "research", "vision": "research"}[q.Tenant]
			table += fmt.Sprintf("%-11s%-11s%-13v%-7v%-11v%-7v%-10vTrue    1h\n", q.Tenant, parent, q.Guaranteed, q.Used, q.Borrowed, q.Lent, q.Pending)
		}
		if !strings.Contains(string(page), table) {
			t.Errorf("docs/quotas.md does not show\n%s", table)
		}
	}
}
