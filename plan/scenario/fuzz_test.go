package scenario_test

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/testall"
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
		if err != nil {
			f.Fatal(err)
		}
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

// FuzzMake builds a small world from bytes and runs it: pods come and go, plans
// are made and applied, operations fail, and the harness checks every plan.
func FuzzMake(f *testing.F) {
	for seed := range 8 {
		b := make([]byte, 200)
		for i := range b {
			b[i] = byte((i*i*(seed+3) + i*7 + seed*31) >> (seed % 3))
		}
		f.Add(b)
	}
	f.Fuzz(live)
}

var (
	worlds = flag.Int("worlds", 110, "the number of random worlds that TestLive lives in")
	seed   = flag.Int64("seed", 0, "of the first of them, each further world has the next; 0 for that of make test or a fresh one")
)

// TestLive runs random worlds. A failed one is run again, alone, with -args
// -seed=N -worlds=1.
func TestLive(t *testing.T) {
	eachWorld(t, *worlds, func(t *testing.T, r *rand.Rand) {
		b := make([]byte, 60+r.Intn(240))
		r.Read(b)
		live(t, b)
	})
}

// eachWorld runs a test for each of n seeds: the same ones in `make test`, ten
// times as many fresh ones in `make test-all`.
func eachWorld(t *testing.T, n int, do func(*testing.T, *rand.Rand)) {
	first := *seed
	if first == 0 {
		first = testall.Seed(t, 11)
		if testall.Enabled() {
			n *= 10
		}
	}
	for i := range int64(n) {
		t.Run(fmt.Sprint(first+i), func(t *testing.T) { do(t, rand.New(rand.NewSource(first+i))) })
	}
}

// checkedWorld is an empty world under the harness, and a function that
// executes a line of the language in it. A failure prints all lines so far.
func checkedWorld(t *testing.T) (*scenario.World, func(format string, args ...any)) {
	w := scenario.NewWorld()
	w.Check = harness
	var log strings.Builder
	do := func(format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		log.WriteString(line + "\n")
		if out, err := w.Exec(line); err != nil {
			t.Fatalf("%s\n%s\n%s\n%v", log.String(), scenario.Print(w.Sim.Snapshot()), out, err)
		}
	}
	return w, do
}

func live(t *testing.T, b []byte) {
	if len(b) > 400 {
		return
	}
	d := &dice{b: b}
	w, do := checkedWorld(t)
	d.build(w, do)
	for step := 0; step < 12 && d.left(); step++ {
		switch d.n(9) {
		case 7, 8:
			d.share(w, do, step)
		case 5:
			d.unsettle(w, do)
		case 6:
			d.odd(do, step+10)
		case 0:
			if pods := w.Sim.State.Pods; len(pods) > 0 {
				do("pod %s gone", pods[d.n(len(pods))].Key())
			}
		case 1:
			if nodes := w.Sim.State.Nodes; len(nodes) > 0 {
				w.Sim.Fail = append(w.Sim.Fail, nodes[d.n(len(nodes))].Name+"/0")
			}
		case 2, 3:
			d.pod(do, fmt.Sprintf("new/p%d", step))
		}
		do("plan apply")
		do("tick %s", time.Duration(1+d.n(90))*time.Second)
	}
}

// dice reads choices from bytes; when they are used up, every choice is 0.
type dice struct{ b []byte }

func (d *dice) left() bool { return len(d.b) > 0 }

func (d *dice) n(below int) int {
	if len(d.b) == 0 || below <= 1 {
		return 0
	}
	v := int(d.b[0]) % below
	d.b = d.b[1:]
	return v
}

func (d *dice) build(w *scenario.World, do func(string, ...any)) {
	if d.n(4) == 0 {
		do("policy max-actions=%d max-nodes=%d", 1+d.n(3), 1+d.n(2))
	}
	if d.n(3) == 0 {
		do("policy max-evictions=%d max-drains=%d drain-timeout=%ds max-nodes-per-hour=%d max-removal-share=0.%d", d.n(3), d.n(3), d.n(300), 1+d.n(4), d.n(10))
		do("policy drain-cooldown=%ds removal-interval=%ds sick-after=%ds replace-interval=%ds max-sick-share=%d", d.n(120), d.n(60), d.n(120), d.n(120), d.n(2))
		do("policy %s", []string{"drain-local-storage", "skip-nodes-with-local-storage"}[d.n(2)])
		do("policy headroom=%s %s", []string{"none", "low", "expected", "high"}[d.n(4)], []string{"scale-up-borrowed", "no-scale-up-borrowed"}[d.n(2)])
	}
	if d.n(4) > 0 {
		do("policy reclaim-borrowed")
	}
	d.quotas(do)
	modes := []string{"no", "idle", "keep-busy"}
	do("pool mig min=%d max=%d price=%d gpus=%d model=H100-80GB layout=%s repartition=%s mig-idle-after=%ds mig-duration=10s ready-after=1m idle-after=%dm cpu=16 labels=(zone=a) others=(rdma/hca=2)",
		d.n(2), 2+d.n(3), 1+d.n(4), 1+d.n(2), d.layout("H100-80GB"), modes[d.n(3)], d.n(3)*20, 1+d.n(4))
	do("pool a30 min=0 max=%d price=1 gpus=1 model=A30-24GB layout=%s repartition=%s mig-duration=5s ready-after=30s idle-after=2m labels=(zone=b)", 1+d.n(3), d.layout("A30-24GB"), modes[d.n(3)])
	do("pool whole min=0 max=%d price=3 gpus=2 model=L40S ready-after=2m idle-after=3m labels=(kind=whole zone=b) others=(rdma/hca=1)", 1+d.n(3))
	pools := []string{"mig", "mig", "a30", "whole"}
	if d.n(6) == 0 {
		do("pool %s fixed", pools[d.n(4)])
	}
	for i := range 1 + d.n(3) {
		pool := pools[d.n(len(pools))]
		do("node n%d pool=%s age=%dm", i, pool, 1+d.n(60))
		if d.n(3) == 0 && pool == "mig" {
			do("gpu n%d/0 layout=%s", i, d.layout("H100-80GB"))
		}
		do("gpu n%d/0 idle=%ds", i, d.n(200))
		switch d.n(8) {
		case 0:
			do("gpu n%d/0 allocation-unknown", i)
		case 1:
			do("node n%d cordoned", i)
		case 2:
			do("node n%d unready", i)
		}
	}
	for i := range d.n(4) {
		d.odd(do, i)
	}
	for i := range d.n(10) {
		d.pod(do, fmt.Sprintf("old/p%d", i))
	}
	for i := range d.n(3) {
		d.gang(do, fmt.Sprintf("old/g%d", i))
	}
	// What fits now is bound before the first plan.
	do("tick 0s")
	if d.n(2) == 0 {
		do("tick %ds", d.n(120))
	}
}

// odd adds rare states of real clusters: nodes that show no GPUs yet, or GPUs
// of unknown models; pools without capacity; nodes of no pool; instances of
// which only the number is known.
func (d *dice) odd(do func(string, ...any), i int) {
	switch d.n(9) {
	case 0:
		do("node odd%d pool=mig gpus=0 unready age=%ds", i, d.n(900))
	case 1:
		do("node odd%d pool=mig gpus=0 age=%ds allocatable=()", i, d.n(900))
	case 2:
		do("node odd%d pool=mig gpus=0 age=%ds", i, d.n(900))
		do("node odd%d gpus=%d model=A30-24GB layout=%s", i, 1+d.n(2), d.layout("A30-24GB"))
	case 3:
		do("node odd%d pool=mig age=%ds", i, d.n(900))
		do("gpu odd%d/0 layout=%s allocation-unknown", i, strings.ReplaceAll(d.layout("H100-80GB"), " ", ":unplaced "))
	case 4:
		do("pool odd%d max=%d model=Mystery gpus=%d layout=(c3m4a0@0) repartition=idle price=0.01 mig-duration=5s", i, d.n(3), d.n(3))
		do("node mystery%d pool=odd%d age=%ds", i, i, d.n(900))
	case 5:
		do("pool odd%d max=%d", i, d.n(3))
		do("node empty%d pool=odd%d age=%ds", i, i, d.n(900))
	case 6:
		do("node odd%d age=1h gpus=%d model=H100-80GB layout=%s", i, 1+d.n(2), d.layout("H100-80GB"))
	case 7:
		do("node odd%d pool=mig bare gpus=2 age=%ds health=sick model=Mystery mig", i, d.n(900))
	case 8:
		do("pod odd/p%d unreadable=what", i)
	}
}

// unsettle stops an exporter or a device plugin, or starts it again.
func (d *dice) unsettle(w *scenario.World, do func(string, ...any)) {
	nodes := w.Sim.State.Nodes
	if len(nodes) == 0 {
		return
	}
	n := nodes[d.n(len(nodes))]
	switch d.n(4) {
	case 0, 1:
		for _, c := range n.GPUs {
			do("gpu %s/%d %s", n.Name, c.Index, []string{"allocation-unknown", "allocation-known"}[d.n(2)])
		}
	case 2:
		do("node %s allocatable=(1g.10gb*%d 3g.40gb*%d gpu*%d)", n.Name, d.n(8), d.n(3), d.n(3))
	case 3:
		do("tick unknown-since=(%s=%dm)", n.Name, d.n(30))
	}
}

func (d *dice) pod(do func(string, ...any), key string) {
	wants := []string{"3g.40gb", "1g.10gb", "2g.20gb", "4g.40gb", "7g.80gb", "1g.6gb", "2g.12gb", "gpu", "gpu*2", "1g.10gb*3", "part:core=500:memory-mib=100"}
	extra := ""
	switch d.n(6) {
	case 0:
		extra = " selector=(kind=whole)"
	case 1:
		extra = fmt.Sprintf(" cpu=%d", 1+d.n(12))
	case 2:
		extra = fmt.Sprintf(" priority=%d", d.n(3)*100)
	case 3:
		extra = " unmarked"
	}
	switch d.n(8) {
	case 0, 1:
		extra += " tenant=" + tenants[d.n(len(tenants))]
	case 2:
		extra += fmt.Sprintf(" tenant=t1 evictable budgets=(b/one:allowed=%d b/two:allowed=1)", d.n(3))
	case 3:
		extra += fmt.Sprintf(" evictable evict-from=%ds", d.n(120))
	case 4:
		extra += " evictable"
	case 6:
		extra += " evictable local-storage"
	case 5:
		extra += " unmade"
	}
	extra += d.rules()
	do("pod %s requests=(%s)%s", key, wants[d.n(len(wants))], extra)
}

// layout is one of the model's maximal layouts without attributes.
func (d *dice) layout(model string) string {
	t, _ := mig.ForModel(model)
	all := t.Maximal()
	l := all[(d.n(250)*7)%len(all)]
	var words []string
	for _, p := range l {
		if p.Profile.Attrs == 0 {
			words = append(words, fmt.Sprintf("%s@%d", t.Name(p.Profile), p.Start))
		}
	}
	return "(" + strings.Join(words, " ") + ")"
}
