package ledger_test

import (
	"testing"

	"github.com/gpuscale/gpuscale/autoscaler/observe/ledger"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// Shares are in cards, the tighter of compute and memory; no limit is none, not 0.
func TestShares(t *testing.T) {
	s, _, err := scenario.Parse(`
pool p max=2 gpus=4 model=H100-80GB layout=(3g.40gb@0 3g.40gb@4)
node n pool=p
quota all
quota red guarantee=1 limit=21+16 parent=all
quota blue guarantee=2 parent=all
pod a/x wants=(3g.40gb*2) node=n tenant=red
pod a/y wants=gpu node=n tenant=red
pod a/z wants=gpu tenant=blue
`)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]ledger.Share{}
	for _, one := range ledger.Shares(&s) {
		got[one.Tenant] = one
	}
	if r := got["red"]; r.Guaranteed != 1 || r.Used != 2 || r.Borrowed != 1 || !r.Limited || r.Limit != 2 || r.Waiting != 0 {
		t.Errorf("red %+v", r)
	}
	if b := got["blue"]; b.Guaranteed != 2 || b.Used != 0 || b.Lent != 1 || b.Limited || b.Waiting != 1 {
		t.Errorf("blue %+v", b)
	}
	if a := got["all"]; a.Guaranteed != 3 || a.Used != 2 || a.Waiting != 1 {
		t.Errorf("all %+v", a)
	}
}
