package scenario_test

import (
	"flag"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// FuzzMake builds a small world from bytes and runs it: pods come and go, plans are made and applied, operations fail,
// and the harness checks every plan.
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
	worlds = flag.Int("worlds", 170, "the number of random worlds that TestLive lives in")
	seed   = flag.Int64("seed", 0, "of the first of them, each further world has the next; 0 for that of make test or a fresh one")
)

// TestLive runs random worlds. A failed one is run again, alone, with -args
// -seed=N -worlds=1.
func TestLive(t *testing.T) {
	eachWorld(t, *worlds, func(t *testing.T, r *rand.Rand) {
		b := make([]byte, 60+r.Intn(340))
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

// newWorld is an empty world whose plans are checked, and a function that executes lines
// of the language in it. A failure prints all lines so far.
func newWorld(t *testing.T, check func(plan.Snapshot, plan.Policy, plan.Plan) error) (*scenario.World, func(format string, args ...any)) {
	w := scenario.NewWorld()
	w.Check = check
	var log strings.Builder
	return w, func(format string, args ...any) {
		t.Helper()
		line := fmt.Sprintf(format, args...)
		log.WriteString(line + "\n")
		if out, err := w.Exec(line); err != nil {
			t.Fatalf("%s\n%s\n%s\n%v", log.String(), scenario.Print(w.Sim.Snapshot()), out, err)
		}
	}
}

func live(t *testing.T, b []byte) {
	if len(b) > 400 {
		return
	}
	d := &dice{b: b}
	d.World, d.do = newWorld(t, harness)
	d.build()
	for step := 0; step < 12 && len(d.b) > 0; step++ {
		d.event(step)
		d.do("plan apply\ntick %s", time.Duration(1+d.n(90))*time.Second)
	}
}

// dice makes a world from choices that it reads from bytes; after the last byte every choice is 0.
type dice struct {
	b []byte
	*scenario.World
	do     func(format string, args ...any)
	pools  []string
	models []string // of the pools
}

func (d *dice) n(below int) int {
	if len(d.b) == 0 || below <= 1 {
		return 0
	}
	v := int(d.b[0]) % below
	d.b = d.b[1:]
	return v
}

func (d *dice) of(words ...string) string { return words[d.n(len(words))] }

func (d *dice) build() {
	if d.n(4) == 0 {
		d.do("policy max-actions=%d max-nodes=%d", 1+d.n(3), 1+d.n(2))
	}
	if d.n(3) == 0 {
		d.do("policy max-evictions=%d max-drains=%d drain-timeout=%ds max-nodes-per-hour=%d max-removal-share=0.%d", d.n(3), d.n(3), d.n(300), 1+d.n(4), d.n(10))
		d.do("policy drain-cooldown=%ds removal-interval=%ds sick-after=%ds replace-interval=%ds max-sick-share=%d", d.n(120), d.n(60), d.n(120), d.n(120), d.n(2))
		d.do("policy %s %s headroom=%s %s", d.of("drain-local-storage", "skip-nodes-with-local-storage"), d.of("balance", "no-balance"),
			d.of("none", "low", "expected", "high"), d.of("scale-up-borrowed", "no-scale-up-borrowed"))
	}
	d.do("policy expendable-cutoff=%s %s", d.of("-10", "-30"), d.of("reclaim-borrowed", "reclaim-borrowed", "no-reclaim-borrowed"))
	d.quotas()
	for i := range 2 + d.n(2) {
		d.pool(i)
	}
	for i := range 1 + d.n(4) {
		at := d.n(len(d.pools))
		d.do("node n%d pool=%s age=%dm", i, d.pools[at], 1+d.n(60))
		if _, ok := mig.ForModel(d.models[at]); ok && d.n(4) == 0 {
			d.do("gpu n%d/0 layout=%s", i, d.layout(d.models[at]))
		}
		d.do("gpu n%d/0 idle=%ds %s\nnode n%d %s", i, d.n(200), d.of("allocation-known", "allocation-known", "allocation-known", "allocation-unknown"), i, d.of("ready", "ready", "ready", "cordoned", "unready"))
	}
	for i := range d.n(4) {
		d.odd(i)
	}
	for i := range d.n(10) {
		d.pod(fmt.Sprintf("old/p%d", i))
	}
	for i := range d.n(3) {
		d.gang(fmt.Sprintf("old/g%d", i))
	}
	d.do("tick %ds", d.n(2)*d.n(120)) // what fits now is bound before the first plan
}

// products are without MIG, or unknown ones.
var products = []string{"L40S", "L40S", "T4", "MI300X", "Mystery-1", "RTX-4090"}

func (d *dice) pool(i int) {
	model, layout, name := d.of("H100-80GB", "H100-80GB", "A30-24GB", products[d.n(len(products))], mig.Models()[d.n(len(mig.Models()))]), "", fmt.Sprintf("p%d", i)
	if _, ok := mig.ForModel(model); ok && d.n(6) > 0 {
		layout = " layout=" + d.layout(model)
	} else if !ok && d.n(4) == 0 {
		layout = " shared places=3"
	}
	d.pools, d.models = append(d.pools, name), append(d.models, model)
	d.do("pool %s min=%d max=%d price=%d gpus=%d model=%s%s repartition=%s mig-idle-after=%ds mig-duration=%ds ready-after=%ds idle-after=%dm %s cpu=%s labels=(zone=%s kind=%s) others=(rdma/hca=%d)",
		name, d.n(2), 1+d.n(5), d.n(5), 1+d.n(3), model, layout, d.of("idle", "keep-busy", "no"), d.n(3)*20, (5+d.n(6))*(1+9*d.n(2)), d.n(120), 1+d.n(4), d.of("", "idle-adapts"), d.of("16", "32", "0"), d.of("a", "b"), d.of("x", "y"), d.n(3))
	if d.n(3) == 0 {
		d.do("pool %s priority=%d ready-after=1m", name, d.n(2))
	}
	if d.n(4) == 0 {
		d.do("pool %s priority=%d host-ports=%s %s %s taints=(t:%s)", name, d.n(3)-1, d.of("()", "TCP/80"), d.of("", "", "fixed"), d.of("spot interruptions=0.3", "on-demand"), d.of("NoSchedule", "PreferNoSchedule"))
	}
}

// tenants that pods name; the last one does not exist.
var tenants = []string{"t1", "t2", "deep", "none"}

// quotas declares a small tree of tenants, or none.
func (d *dice) quotas() {
	if d.n(3) == 0 {
		return
	}
	amount := func() string { return d.of("none", "1", "2", "3+4", "all") }
	d.do("quota root limit=%s\nquota t1 parent=root guarantee=%d borrow=%s lend=%s", d.of("all", "4"), d.n(3), amount(), amount())
	d.do("quota t2 guarantee=%s limit=%s borrow=%s %s", d.of("none", "1", "2", "3+4"), d.of("2", "3", "21+all", "all"), amount(), d.of("", "parent=root"))
	d.do("quota deep parent=t1 reclaim-idle=%ds limit=%s", d.n(200), amount())
}

// odd adds rare states of real clusters: nodes that show no GPUs yet, or GPUs
// of unknown models; pools without capacity; nodes of no pool; instances of
// which only the number is known; static pods.
func (d *dice) odd(i int) {
	pool, age := d.pools[0], d.n(900)
	switch d.n(10) {
	case 0:
		d.do("node odd%d pool=%s gpus=0 unready age=%ds", i, pool, age)
	case 1:
		d.do("node odd%d pool=%s gpus=0 age=%ds allocatable=()", i, pool, age)
	case 2:
		d.do("node odd%d pool=%s gpus=0 age=%ds\nnode odd%d gpus=%d model=A30-24GB layout=%s", i, pool, age, i, 1+d.n(2), d.layout("A30-24GB"))
	case 3: // none of the pool's GPUs: these may be shared, and then have no MIG devices
		d.do("node odd%d pool=%s gpus=0 age=%ds\nnode odd%d gpus=1 model=H100-80GB layout=%s\ngpu odd%d/0 allocation-unknown", i, pool, age, i, strings.ReplaceAll(d.layout("H100-80GB"), " ", ":unplaced "), i)
	case 4:
		d.do("pool odd%d max=%d model=Mystery gpus=%d layout=(c3m4a0@0) repartition=idle price=0.01 mig-duration=5s\nnode mystery%d pool=odd%d age=%ds", i, d.n(3), d.n(3), i, i, age)
	case 5:
		d.do("pool odd%d max=%d\nnode empty%d pool=odd%d age=%ds", i, d.n(3), i, i, age)
	case 6:
		d.do("node odd%d age=1h gpus=%d model=H100-80GB layout=%s", i, 1+d.n(2), d.layout("H100-80GB"))
	case 7:
		d.do("node odd%d pool=%s bare gpus=2 age=%ds health=sick model=Mystery mig", i, pool, age)
	case 8:
		d.do("pod odd/p%d unreadable=what", i)
	case 9: // a static pod, beside which more is requested than there is
		if len(d.Sim.State.Nodes) > 0 {
			d.do("pod odd/static%d node=%s cpu=%d", i, d.Sim.State.Nodes[0].Name, 16+d.n(20))
		}
	}
}

// event is something that happens between two plans: pods come and go, nodes, exporters
// and device plugins change, forecasts are made.
func (d *dice) event(step int) {
	pods, nodes := d.Sim.State.Pods, d.Sim.State.Nodes
	kind := d.n(20)
	switch {
	case kind == 18: // the provider has none, or users change the pool or its nodes
		p := d.Sim.State.Pools[d.n(len(d.pools))]
		d.do("pool %s %s", p.Name, d.of(map[bool]string{false: "backoff=50s"}[p.Fixed], "freeze", "thaw", "max=9", "idle-after=1s", "min=1", "labels=(zone=b kind=x)"))
	case kind == 19: // the autoscaler starts again without its state
		d.do("tick last-scale-up=() last-scale-down=() last-drain=() last-regret=() last-replace=() last-repartition=() short-since=() sick-since=() unknown-since=() free-since=() grown=() removed=() failures=()")
	case kind < 4:
		d.pod(fmt.Sprintf("new/p%d", step))
	case kind < 6:
		d.gang(fmt.Sprintf("new/g%d", step))
	case kind == 6:
		d.odd(step + 10)
	case kind == 7:
		low := d.n(4)
		d.do("forecast f/w%d requests=(%s) have=%d low=%d expected=%d high=%d at=%ss error=0.%d%s%s", d.n(3), d.request(), d.n(4), low, low+d.n(3), low+2+d.n(3),
			d.of("20", "60", "180", "900"), d.n(10), d.of("", "", " tenant=t1", " tenant=t2"), d.rules())
	case kind == 8:
		d.do("forecast f/w%d unsure=short", d.n(3))
	case kind < 12 && len(pods) > 0:
		if p := pods[d.n(len(pods))]; kind == 9 && p.Node != "" {
			d.do("pod %s leaving=%ds", p.Key(), d.n(120))
		} else if kind > 9 {
			d.do("pod %s gone", p.Key())
		}
	case len(nodes) > 0:
		d.unsettle(nodes[d.n(len(nodes))])
	}
}

// unsettle stops or starts an exporter or a device plugin, drains a node, breaks a GPU, lets pods leave theirs unused,
// or has a provider interrupt the node.
func (d *dice) unsettle(n plan.Node) {
	each := func(words string) {
		for _, c := range n.GPUs {
			d.do("gpu %s/%d %s", n.Name, c.Index, words)
		}
	}
	switch d.n(9) {
	case 0, 1:
		each(d.of("allocation-unknown", "allocation-known"))
	case 2:
		d.do("node %s allocatable=(1g.10gb*%d 3g.40gb*%d gpu*%d)", n.Name, d.n(8), d.n(3), d.n(3))
	case 3:
		d.do("tick unknown-since=(%s=%dm) failures=(%s/0=%d:at=%ds)", n.Name, d.n(30), n.Name, 1+d.n(3), d.n(300))
	case 4:
		if n.Pool != "" && n.Operation == nil {
			d.do("node %s draining=%ds drain-deadline=%ds drain-reason=%s", n.Name, d.n(60), d.n(60), d.of("NodeUnderused", "NodeSick"))
		}
	case 5:
		if len(n.GPUs) > 0 {
			d.do("gpu %s/%d health=%s", n.Name, n.GPUs[0].Index, d.of("sick", "healthy"))
		}
	case 6:
		each(fmt.Sprintf("unused=%ds", d.n(400)))
	case 7:
		d.do("node %s holds-data leaves-in=%ds", n.Name, d.n(300))
	case 8:
		d.Sim.Fail = append(d.Sim.Fail, n.Name+"/0")
	}
}

// gang declares the pods of a gang, alike or not, some of them unmade.
func (d *dice) gang(name string) {
	size := 1 + d.n(4)
	extra := fmt.Sprintf(" gang=%s gang-min=%d%s%s", name, 1+d.n(size+1), d.of("", " unmade", " tenant=t2", " priority=100 evictable"), d.rules())
	if d.n(2) == 0 {
		for i := range size {
			d.do("pod %s-%d requests=(%s)%s", name, i, d.request(), extra)
		}
		return
	}
	d.do("pod %s-{0..%d} requests=(%s)%s", name, size-1, d.request(), extra)
	if d.n(3) == 0 {
		d.do("pod %s-0 made", name)
	}
}

func (d *dice) pod(key string) {
	extra := d.of("", "", " selector=(kind=x)", fmt.Sprintf(" cpu=%d", 1+d.n(12)), " priority="+d.of("0", "100", "200", "-20"), " unmarked", " affinity=(kind:In:x | zone:NotIn:a)", " tolerations=(t:op=Exists)", ` tolerations=("":op=Exists)`)
	extra += d.of("", " evictable", " tenant="+d.of(tenants...), fmt.Sprintf(" tenant=t1 evictable budgets=(b/one:allowed=%d b/two:allowed=1)", d.n(3)),
		fmt.Sprintf(" evictable evict-from=%ds", d.n(120)), " unmade", " evictable local-storage", "", " host-ports=TCP/80",
		" host-ports=(TCP/80/10.0.0.1 UDP/80)", " volumes=(zone:In:a | zone:In:c)", " volumes=(zone:In:b & kubernetes.io/hostname:In:n0)", " unbound=what")
	d.do("pod %s requests=(%s)%s%s", key, d.request(), extra, d.rules())
}

// request is what one of the pools' GPUs has, or nearly.
func (d *dice) request() string {
	if table, ok := mig.ForModel(d.models[d.n(len(d.models))]); ok && d.n(3) > 0 {
		profiles := table.Profiles()
		return table.Name(profiles[d.n(len(profiles))]) + d.of("", "", "", "*3")
	}
	return d.of("gpu", "gpu", "gpu*2", "any.gpu", "amd.gpu", "gpu*9", "part:core=500:memory-mib=100", "part:core=300:memory-mib=7000", "part:core=0:memory-mib=30000",
		"part:core=0:memory=400", "part:core=250:gpus=2", "part:core=0", "1g.1gb")
}

// rules tie a pod to others by zone or host, or have it request other resources.
func (d *dice) rules() string {
	group, other, key := d.of("x", "y"), d.of("x", "y"), d.of("zone", "zone", "kubernetes.io/hostname")
	switch d.n(11) {
	case 0:
		return fmt.Sprintf(" groups=(%s) spread=(%s:group=%s:skew=%d:min-domains=%d%s)", group, key, group, 1+d.n(2), d.n(3), d.of("", ":honor-taints", ":ignore-affinity"))
	case 1:
		return fmt.Sprintf(" groups=(%s) apart=(%s:group=%s)", group, key, other)
	case 2:
		return fmt.Sprintf(" groups=(%s) near=(%s:group=%s)", group, key, other)
	case 3:
		return fmt.Sprintf(" groups=(%s)", group)
	case 4:
		return fmt.Sprintf(" others=(rdma/hca=%d)", 1+d.n(2))
	case 5:
		return fmt.Sprintf(" groups=(sets %s) near=(zone:group=%s) apart=(zone:group=sets:except=%s)", group, group, group)
	}
	return ""
}

// layout is one of the model's maximal layouts.
func (d *dice) layout(model string) string {
	t, _ := mig.ForModel(model)
	all := t.Maximal()
	return "(" + t.Format(all[(d.n(250)*len(all)/250)%len(all)]) + ")"
}
