package scenario_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// FuzzScenario parses any text: it must not panic, what was read must print and
// parse back equal, and Make must plan it, whatever the order.
func FuzzScenario(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal("no scenarios", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		for _, block := range strings.Split(string(text), "----\n") {
			f.Add(block)
		}
	}
	f.Add(everything)
	f.Fuzz(func(t *testing.T, text string) {
		s, p, err := scenario.Parse(text)
		plan.Make(s, p)
		if err != nil {
			return
		}
		printed := scenario.PrintPolicy(p) + scenario.Print(s)
		back, policy, err := scenario.Parse(printed)
		if err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if !reflect.DeepEqual(s, back) {
			t.Fatalf("%+v\nprints as\n%s\nand reads back as\n%+v", s, printed, back)
		}
		if fmt.Sprint(policy) != fmt.Sprint(p) {
			t.Fatalf("%+v reads back as %+v", p, policy)
		}
	})
}

// everything has every field of the language.
const everything = `
policy freeze max-actions=3 max-nodes=4 max-removals=5 soft-taints scale-down-cooldown=6m repartition-cooldown=7s repartition-timeout=8m
  max-unready=0.5 ok-unready=2 wait-cost=1.5 disruption-cost=0.1 node-life=2h node-overdue=9m
  max-nodes-per-hour=40 max-removal-share=0.3 removal-interval=31s max-removals-per-ten-minutes=77 max-idle-at-once=0.6 ok-idle=7 idle-hold=14m scale-up-borrowed reclaim-borrowed max-evictions=6 eviction-cost=0.75
  drain-local-storage expendable-cutoff=-3 balance max-drains=2 drain-timeout=11m drain-cooldown=12m headroom=high headroom-weight=0.25
  sick-after=13m replace-interval=2h max-sick-share=0.4
policy thaw no-balance no-soft-taints no-scale-up-borrowed no-reclaim-borrowed skip-nodes-with-local-storage
tick at="@2026-05-01T10:00:00.5Z" last-scale-up=(h=5m) last-scale-down=(h=6m) last-repartition=(n1=30s) free-since=(n1/1=1h n1=-1s) unknown-since=(n1=3m)
  last-drain=(h=7m) last-replace=(h=8m) sick-since=(n1=9m) grown=(h=5:at=10m h=1:at=0s) removed=(h=3:at=5m) failures=(n1/0=2:at=5m)
  tables=("NVIDIA-Z900-128GB 4 4 131072 0 1g.32gb:0,1,2,3:1:4 2g.64gb:0,2:2:2 4g.128gb:0:4:1")
pool h min=1 max=4 priority=3 target=3 size=2 price=2.25 spot interruptions=0.05 freeze ready-after=2m idle-after=10m backoff=3m repartition=keep-busy
  mig-idle-after=1m mig-duration=9s cpu=64 memory=512Gi gpus=2 model=H100-80GB health=healthy layout=(1g.10gb@0 3g.40gb@4)
  others=(rdma/hca=4 "x y"=1) mig-allowed=(1g.10gb 3g.40gb) host-ports=TCP/9100 labels=(a=b c/d="e f" g) taints=(k=v:NoSchedule k2:NoExecute)
pool odd max=1 keeps-busy backoff="@2326-01-01T00:00:00Z" spot on-demand fixed
gpu odd/0 template model=A30-24GB
gpu odd/2 template model=Mystery vendor=acme memory-mib=7 layout=(c3m4a1@0) allocation-unknown
quota root limit=4 lend=none
quota chat parent=root guarantee=2 limit=21+all borrow=none lend=all reclaim-idle=2h
quota half guarantee=3+4
node n1 pool=h bare unready cordoned-by=n1-0 uncordoned no-scale-down soft-tainted age=1h cpu=1500m memory=7Mi labels=(x=y) taints=(t:NoSchedule)
  op=n1-0 op-gpu=0 op-model=H100-80GB op-target=(3g.40gb@0 3g.40gb@4) op-started=1s op-deadline=4m59s op-phase=failed op-message="it is in use, \"really\""
gpu n1/0 model=H100-80GB uuid=GPU-1 health=sick layout=(1g.10gb@0:allocated-to=a/p:uuid=MIG-1:busy=0.5~3s 1g.10gb@1:idle=5m:unplaced) gpu-idle=1m gpu-busy=0.25~1s
gpu n1/1 allocated-to=(a/q b/r) no-mig shared places=10 allocation-known unused=3h
node n2 cordoned allocatable=() draining=4m drain-deadline=6m drain-reason=NodeSick uncordoned holds-data leaves-in=90s
gpu n2/0 model=H100-80GB mig layout=(3g.40gb@0 3g.40gb@4:allocated-to=a/x:unused=2h) idle=1h gpu-unused=1h
node n3 allocatable=(gpu*2 3g.40gb) unready ready cordoned uncordoned draining=1s not-draining
pod a/p requests=(3g.40gb 1g.10gb*2) node=n1 pending=2m age=3m priority=-5 owner=Deployment/p cpu=250m memory=1Gi
  selector=(x=y) affinity=(| z:In:a:b x:Exists | w:Gt:5) tolerations=(t:op=Exists:effect=NoSchedule u=v) evictable local-storage daemonset unschedulable
  evict-from=10m budgets=(a/pdb:allowed=1 b/pdb:allowed=0) leaving=30s
pod a/q requests=amd.gpu*2 pending=never age=5s unmarked unmade tenant=chat gang=a/g gang-min=2
  host-ports=(TCP/80 UDP/53/10.0.0.1 "TCP/1/::1") volumes=(z:In:a | z:In:b c:Exists & & x:NotIn:"y z") unbound="no claim" data=(dataset.gpuscale.io/a "x y")
  others=(rdma/hca=2) groups=(a/r "b c") spread=(zone:group=a/r:skew=2:min-domains=3:ignore-affinity:honor-taints) apart=(host:group="b c") near=(rack:group=a/r)
pod a/s unreadable="resource x: contradicts y" node=n2 leaving=never parts-on=(0 3)
pod a/r requests=(any.gpu part:core=500:memory-mib=4096:memory=250:gpus=2)
pod a/w-{0..2} requests=gpu unmade made
pod "a/w-{0..2}" requests=gpu node=n3 leaving=1m staying
forecast a/f requests=3g.40gb have=4 low=3 expected=6.5 high=9 at=10m error=0.12 selector=(x=y) tenant=chat priority=7
forecast a/g unsure="too short"
`
