package observe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// Answers are the vectors that Readings are built from.
type Answers struct {
	Info, InstanceInfo, Allocated, Age     prom.Vector
	Busy, InstanceBusy, SampleAge, Healthy prom.Vector
	// Idle has, in seconds before Taken, when an allocated device last computed; devices that
	// compute are left out.
	Idle prom.Vector
}

// NewReadings builds Readings from complete answers; Read asks for them.
func NewReadings(taken time.Time, a Answers) *Readings {
	in := newReadings(taken)
	for i, vector := range inOrder(a) {
		in.add(families[i].Name, vector)
	}
	return in
}

// target is a scrape target: its labels in Prometheus, and its page.
type target struct {
	labels map[string]string
	honor  bool // honor_labels
	page   string
}

func targetIn(namespace, pod, job, instance, page string) target {
	labels := map[string]string{"job": job, "instance": instance, "pod": pod}
	if namespace != "" {
		labels["namespace"] = namespace
	}
	return target{labels: labels, page: page}
}

// scraped is what Prometheus stores of the targets, in promtool's notation. A label of the page that
// the target has too is renamed, or replaces the target's with honor_labels.
func scraped(t *testing.T, targets ...target) string {
	t.Helper()
	var out strings.Builder
	for _, target := range targets {
		for line := range strings.Lines(target.page) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			name, rest, ok := strings.Cut(line, "{")
			pairs, value, closed := strings.Cut(rest, "} ")
			if !ok || !closed {
				t.Fatalf("the line %q is no sample", line)
			}
			labels := maps.Clone(target.labels)
			for pair := range strings.SplitSeq(pairs, ",") {
				key, quoted, _ := strings.Cut(pair, "=")
				if _, clash := target.labels[key]; clash && !target.honor {
					key = "exported_" + key
				}
				labels[key], _ = strconv.Unquote(quoted)
			}
			var all []string
			for _, key := range slices.Sorted(maps.Keys(labels)) {
				all = append(all, fmt.Sprintf("%s=%q", key, labels[key]))
			}
			fmt.Fprintf(&out, "%s{%s} %s\n", name, strings.Join(all, ","), value)
		}
	}
	return out.String()
}

const exporterSpace = "gpuscale-system"

// honest is the page of an exporter on node "n" with one healthy GPU at 97 %, allocated to chat/a.
const honest = `
gpu_attribution_age_seconds{node="n"} 1
gpu_info{node="n",gpu="0",gpu_uuid="GPU-1",model="NVIDIA H100 80GB HBM3",mig="false"} 1
gpu_held{node="n",gpu="0",gpu_uuid="GPU-1",namespace="chat",pod="a"} 1
gpu_busy_ratio{node="n",gpu="0",gpu_uuid="GPU-1",namespace="chat",pod="a"} 0.97
gpu_sample_age_seconds{node="n",gpu="0",gpu_uuid="GPU-1"} 1
gpu_healthy{node="n",gpu="0",gpu_uuid="GPU-1"} 1
`

func exporter() target {
	return targetIn(exporterSpace, "exporter-x", "gpuscale-exporter", "10.0.0.1:9400", honest)
}

// observed is what an Observer makes of the targets' pages, for the node "n" with one GPU and the pod
// chat/a on it.
func observed(t *testing.T, trusted trust.Exporters, targets ...target) Observation {
	t.Helper()
	one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	p := owned("a")
	p.Spec.Containers[0].Resources.Requests = one
	objects := []client.Object{pool("p"), node("n", one), p}
	for _, target := range targets {
		of := pod(target.labels["pod"], "n", nil)
		of.Namespace = cmp.Or(target.labels["namespace"], "default")
		objects = append(objects, of)
	}
	w := newWorld(t, objects...)
	store := promtest.Load(t, scraped(t, targets...), memstore.Until(start, time.Second), nil)
	store.Now = start
	readings, err := Read(t.Context(), store, trusted, start)
	require.NoError(t, err)
	w.readings = readings
	return w.at(0)
}

// TestTypeAndUnitLabels: labels of Prometheus' feature type-and-unit-labels change no reading.
func TestTypeAndUnitLabels(t *testing.T) {
	trusted := trust.From([]string{exporterSpace})
	plain, typed := exporter(), exporter()
	plain.page += `gpu_idle_seconds{node="n",gpu="0",gpu_uuid="GPU-1",namespace="chat",pod="a"} 60`
	typed.page = strings.ReplaceAll(plain.page, `} `, `,__type__="gauge",__unit__="seconds"} `)
	want := observed(t, trusted, plain)
	got := observed(t, trusted, typed)
	if want.Nodes[0].GPUs[0].UnusedSince.IsZero() || !reflect.DeepEqual(want.Nodes, got.Nodes) {
		t.Errorf("with the labels %+v, without %+v", got.Nodes[0].GPUs, want.Nodes[0].GPUs)
	}
}

const ownPage = "the exporter's own"

// forgeries are pages that a tenant could serve against the node.
var forgeries = map[string]string{
	"sick":        `gpu_healthy{node="n",gpu="0",gpu_uuid="GPU-1"} 0`,
	"sick by XID": `gpu_healthy{node="n",gpu="0",gpu_uuid="GPU-1",reason="xid"} 0`,
	"unused": `gpu_idle_seconds{node="n",gpu="0",gpu_uuid="GPU-1",namespace="chat",pod="a"} 200000
		gpu_busy_ratio{node="n",gpu="0",gpu_uuid="GPU-1",namespace="chat",pod="a"} 0`,
	"unused, without a pod": `gpu_idle_seconds{node="n",gpu="0",gpu_uuid="GPU-1"} 200000
		gpu_busy_ratio{node="n",gpu="0",gpu_uuid="GPU-1"} 0`,
	"64 GPUs":         `gpu_info{node="n",gpu="63",gpu_uuid="GPU-9",model="NVIDIA H100 80GB HBM3",mig="false"} 1`,
	"another GPU":     `gpu_info{node="n",gpu="0",gpu_uuid="GPU-9",model="NVIDIA T4",mig="true"} 1`,
	"an instance":     `gpu_instance_info{node="n",gpu="1",gpu_instance_id="1",profile="3g.40gb",start="0",instance_uuid="MIG-1"} 1`,
	"old attribution": `gpu_attribution_age_seconds{node="n"} 1000000`,
	"old sample":      `gpu_sample_age_seconds{node="n",gpu="0",gpu_uuid="GPU-1"} 1000000`,
	"allocated":       `gpu_held{node="n",gpu="0",gpu_uuid="GPU-1",namespace="tenant",pod="t"} 1`,
	"allocated twice": `gpu_held{node="n",gpu="0",gpu_uuid="GPU-1",namespace="chat",pod="a",container="x"} 1`,
	"a node":          `gpu_attribution_age_seconds{node="m"} 1`,
	"the whole page":  strings.ReplaceAll(honest, "} 0.97", "} 0"),
	ownPage: strings.NewReplacer(`{`, `{job="gpuscale-exporter",instance="10.0.0.1:9400",`, `} 0.97`, `} 0`).
		Replace(strings.ReplaceAll(honest, `namespace="chat",pod="a"`, `namespace="gpuscale-system",pod="exporter-x"`)),
	"exported labels": `gpu_healthy{exported_node="n",node="x",gpu="0",exported_namespace="gpuscale-system"} 0
		gpu_held{exported_node="n",gpu="0",exported_namespace="gpuscale-system",exported_pod="exporter-x"} 1`,
}

// TestTenantsPagesHaveNoEffect: whatever a page of another namespace contains, the observation is that of the exporter
// alone.
func TestTenantsPagesHaveNoEffect(t *testing.T) {
	trusted := trust.From([]string{exporterSpace})
	for _, honor := range []bool{false, true} {
		real := exporter()
		real.honor = honor
		want := observed(t, trusted, real)
		if g := want.Nodes[0].GPUs; len(g) != 1 || g[0].Health == gpu.Sick || !g[0].AllocationKnown || !slices.Equal(g[0].AllocatedTo, []string{"chat/a"}) {
			t.Fatalf("honor_labels %v: GPUs %+v", honor, g)
		}
		if busy, known := want.Nodes[0].GPUs[0].Busy.Get(); !known || busy != 0.97 {
			t.Fatalf("honor_labels %v: busy %v", honor, want.Nodes[0].GPUs[0].Busy)
		}
		for name, page := range forgeries {
			for place, forger := range map[string]target{
				"a tenant's":              targetIn("tenant", "t", "pods", "10.0.0.7:80", page),
				"a tenant's, in this job": targetIn("tenant", "t", "gpuscale-exporter", "10.0.0.7:80", page),
				"on the exporter's host":  targetIn("tenant", "t", "pods", "10.0.0.1:9400", page),
				"a similar namespace's":   targetIn(exporterSpace+"-2", "t", "pods", "10.0.0.7:80", page),
				"no namespace's":          targetIn("", "t", "pods", "10.0.0.7:80", page),
			} {
				if forger.labels["namespace"] == "" && name == ownPage {
					continue // where the target has no namespace, the page sets the label
				}
				// The tenant's series come before or after the exporter's; in make test after them without
				// honor_labels, before them with it.
				for i, all := range [][]target{{real, forger}, {forger, real}} {
					if !testall.Enabled() && (i == 1) != honor {
						continue
					}
					got := observed(t, trusted, all...)
					if !reflect.DeepEqual(got.Nodes, want.Nodes) || got.Ignored != want.Ignored {
						t.Errorf("honor_labels %v, %s, by %s pod: %+v, ignored %+v; want %+v", honor, name, place, got.Nodes[0].GPUs, got.Ignored, want.Nodes[0].GPUs)
					}
				}
			}
		}
	}
}

// TestTenantsAlone: without an exporter nothing is known, whatever tenants' pages contain.
func TestTenantsAlone(t *testing.T) {
	for _, page := range append(slices.Collect(maps.Values(forgeries)), honest) {
		got := observed(t, trust.From([]string{exporterSpace}), targetIn("tenant", "t", "pods", "10.0.0.7:80", page))
		if g := got.Nodes[0].GPUs; len(g) != 1 || g[0].AllocationKnown || g[0].Health != gpu.HealthUnknown || got.Ignored != (Ignored{}) {
			t.Errorf("%s: %+v, ignored %+v", page, g, got.Ignored)
		}
	}
}

// TestTrustIsWhatProtects: with "*" each forgery has an effect.
func TestTrustIsWhatProtects(t *testing.T) {
	want := observed(t, nil, exporter())
	for name, page := range forgeries {
		got := observed(t, nil, exporter(), targetIn("tenant", "t", "pods", "10.0.0.7:80", page))
		if reflect.DeepEqual(got.Nodes, want.Nodes) && got.Ignored == want.Ignored {
			t.Errorf("%s: no effect", name)
		}
	}
}

// TestTargetsDisagree: where trusted targets disagree about a GPU the value is unknown, never sick
// and never free, in either order, and is counted. Where they agree it is known.
func TestTargetsDisagree(t *testing.T) {
	trusted := trust.From([]string{exporterSpace})
	for name, c := range map[string]struct {
		page   string
		want   Ignored
		health gpu.Health
		known  bool // allocations
		busy   bool // known
	}{
		"agree":         {honest, Ignored{}, gpu.HealthUnknown, true, true},
		"one is sick":   {forgeries["sick"], Ignored{Disputed: 1}, gpu.HealthUnknown, true, true},
		"another ratio": {`gpu_busy_ratio{node="n",gpu="0",gpu_uuid="GPU-1"} 0`, Ignored{Disputed: 1}, gpu.HealthUnknown, true, false},
		"another GPU":   {forgeries["another GPU"], Ignored{Disputed: 1}, gpu.HealthUnknown, false, false},
		"older sample":  {`gpu_sample_age_seconds{node="n",gpu="0",gpu_uuid="GPU-1"} 5`, Ignored{}, gpu.HealthUnknown, true, true},
		"a GPU more":    {forgeries["64 GPUs"], Ignored{GPUs: 1}, gpu.HealthUnknown, true, true},
		"a node more":   {forgeries["a node"], Ignored{Nodes: 1}, gpu.HealthUnknown, true, true},
	} {
		other := targetIn(exporterSpace, "exporter-y", "gpuscale-exporter", "10.0.0.2:9400", c.page)
		for _, all := range [][]target{{exporter(), other}, {other, exporter()}} {
			got := observed(t, trusted, all...)
			g := got.Nodes[0].GPUs
			if len(g) != 1 {
				t.Fatalf("%s: GPUs %+v", name, g)
			}
			_, busy := g[0].Busy.Get()
			if got.Ignored != c.want || g[0].Health != c.health || g[0].AllocationKnown != c.known || busy != c.busy {
				t.Errorf("%s: ignored %+v, health %v, allocations known %v, busy known %v; want %+v", name, got.Ignored, g[0].Health, g[0].AllocationKnown, busy, c)
			}
			if !g[0].IdleSince.IsZero() {
				t.Errorf("%s: it counts as idle since %s", name, g[0].IdleSince)
			}
		}
	}
	const verdict = `gpu_healthy{node="n",gpu="0",gpu_uuid="GPU-1"} `
	sick := strings.Replace(honest, verdict+"1", verdict+"0", 1)
	one, two := exporter(), targetIn(exporterSpace, "exporter-y", "gpuscale-exporter", "10.0.0.2:9400", sick)
	one.page = sick
	if got := observed(t, trusted, one, two); got.Nodes[0].GPUs[0].Health != gpu.Sick || got.Ignored != (Ignored{}) {
		t.Errorf("both report it sick: %+v", got.Nodes[0].GPUs[0])
	}
}

// TestTwoJobsReportOneDevice: a device that two scrape jobs report counts once, so that the pod's other
// device, which no series attributes, is not free.
func TestTwoJobsReportOneDevice(t *testing.T) {
	w := newWorld(t, pool("p"), node("n", halves(2)), pod("a", "n", halves(2)))
	a := twoHalves(1, "a")
	a.Allocated = append(a.Allocated, a.Allocated...)
	w.readings = NewReadings(start, a)
	if g := w.at(0).Nodes[0].GPUs[0]; g.AllocationKnown {
		t.Errorf("GPU %+v", g)
	}
}

// TestTwoIdleTimes: of two idle times of one pod the shorter counts; those of two pods make the idle time unknown.
func TestTwoIdleTimes(t *testing.T) {
	for _, c := range []struct {
		idle []string // POD SECONDS
		want time.Time
	}{
		{[]string{"a 10", "a 600"}, start.Add(-10 * time.Second)}, {[]string{"a 600", "a 10"}, start.Add(-10 * time.Second)},
		{idle: []string{"a 10", "b 1"}}, {idle: []string{"b 1", "a 10"}}, {idle: []string{"a 10", "b 1", "a 10"}},
	} {
		of := func(value float64, pod string) prom.Sample {
			return series(value, "node", "n", "gpu", "0", "namespace", "chat", "pod", pod)
		}
		a := Answers{Allocated: prom.Vector{of(1, "a")}, Busy: prom.Vector{of(0, "a")}, SampleAge: prom.Vector{of(0, "a")}}
		for _, one := range c.idle {
			pod, seconds, _ := strings.Cut(one, " ")
			v, _ := strconv.ParseFloat(seconds, 64)
			a.Idle = append(a.Idle, of(v, pod))
		}
		if _, got := NewReadings(start, a).nodes["n"].gpus[0].use(start, start, time.Second); !got.Equal(c.want) {
			t.Errorf("%v: unused since %s", c.idle, got)
		}
	}
}

// TestGPUBound: GFD's label counts the GPUs, or else the whole GPUs that the node offers, with those
// that the device plugin withdrew. Where MIG or a dialect hides the number it is not bounded below
// the general limit.
func TestGPUBound(t *testing.T) {
	for _, c := range []struct {
		label, strategy, product, config, allocatable, capacity string
		want                                                    int
	}{
		{label: "2", allocatable: "nvidia.com/gpu=8", want: 2},
		{label: "2", strategy: "mixed", allocatable: "nvidia.com/mig-3g.40gb=4", want: 2},
		{label: "1000", want: maxGPUs},
		{label: "14", strategy: "single", product: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", allocatable: "nvidia.com/gpu=14", want: maxGPUs},
		{label: "8", strategy: "single", product: "NVIDIA-A100-SXM4-40GB", allocatable: "nvidia.com/gpu=7", want: 8},
		{label: "x", allocatable: "nvidia.com/gpu=4", want: 4},
		{label: "-1", strategy: "none", allocatable: "nvidia.com/gpu=4 cpu=8", want: 4},
		{allocatable: "nvidia.com/gpu=7", capacity: "nvidia.com/gpu=8", want: 8},
		{allocatable: "amd.com/gpu=2", want: 2},
		{allocatable: "nvidia.com/gpu=1 nvidia.com/mig-3g.40gb=2", want: maxGPUs},
		{allocatable: "nvidia.com/gpu=1", config: "halves", want: maxGPUs},
		{allocatable: "cpu=8", want: maxGPUs},
	} {
		n := &corev1.Node{Status: corev1.NodeStatus{Allocatable: listOf(c.allocatable), Capacity: listOf(c.capacity)}}
		n.Labels = map[string]string{partition.CountLabel: c.label, partition.StrategyLabel: c.strategy, partition.ProductLabel: c.product, contract.ConfigLabel: c.config}
		_, err := TrimNode(n)
		require.NoError(t, err)
		if _, got := gpuCounts(n); got != c.want {
			t.Errorf("%+v: %d GPUs", c, got)
		}
	}
}

// TestNoTrustedExporter: the log has once that Prometheus has no series of a trusted exporter, with the namespaces, and
// once that this has ended.
func TestNoTrustedExporter(t *testing.T) {
	var log bytes.Buffer
	p := &Prometheus{Querier: &answering{vectors: make([]prom.Vector, 10), fails: -1}, Trusted: trust.From([]string{"gpus"}), Every: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, found := range []bool{true, false, false, true} {
		p.report(found)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 2 || !strings.Contains(log.String(), "exporterNamespaces=[gpus]") {
		t.Errorf("log:\n%s", log.String())
	}
	log.Reset()
	p.once(t.Context())
	if !strings.Contains(log.String(), "no series of a trusted exporter") || p.Latest() == nil {
		t.Errorf("log:\n%s", log.String())
	}
}

// answering is a fake of Prometheus that has these answers, in the order of the queries.
type answering struct {
	vectors []prom.Vector
	fails   int // the query that fails, -1 for none
	asked   int
}

func (a *answering) Query(context.Context, string, time.Time) (prom.Vector, error) {
	n := a.asked
	a.asked++
	if n == a.fails {
		return nil, errors.New("the connection broke")
	}
	return a.vectors[n], nil
}

func inOrder(a Answers) []prom.Vector {
	return []prom.Vector{a.Age, a.Info, a.InstanceInfo, a.Allocated, a.Busy, a.InstanceBusy, a.SampleAge, a.Healthy, a.Idle}
}

// TestReadIsNewReadings: queries one after another give the same readings as all at once.
func TestReadIsNewReadings(t *testing.T) {
	for name, a := range map[string]Answers{"gpus": answersOf(fullCluster(3)), "instances": twoHalves(1, "a", "b")} {
		a.Healthy = append(a.Healthy, series(0, "exported_node", "n", "node", "scraped", "gpu", "0"))
		a.Busy = append(a.Busy, series(0.5, "node", "n", "gpu", "0"))
		a.SampleAge = append(a.SampleAge, series(2, "node", "n", "gpu", "0"), series(2, "node", "n", "gpu", "77"))
		fake := &answering{vectors: inOrder(a), fails: -1}
		got, err := Read(t.Context(), fake, nil, start)
		require.NoError(t, err)
		if want := NewReadings(start, a); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if _, there := got.nodes["scraped"]; there || got.nodes["n"].gpus[77] != nil {
			t.Errorf("%s: a GPU exists because of Prometheus' own label or of an age alone", name)
		}
		for n := range fake.vectors {
			broken := &answering{vectors: inOrder(a), fails: n}
			if _, err := Read(t.Context(), broken, nil, start); err == nil {
				t.Errorf("%s: err %v though question %d broke off", name, err, n)
			}
		}
	}
}

// FuzzIntake: any series is recorded or skipped, and missing labels are not made up.
func FuzzIntake(f *testing.F) {
	f.Add("n", "0", "1", "0", "chat", "a", 1.0)
	f.Add("", "-1", "", "x", "", "", -1.0)
	f.Add("n", "99999999999999999999", "\x00", "-5", "/", "/", 1e300)
	f.Fuzz(func(t *testing.T, node, device, instance, first, namespace, pod string, value float64) {
		labels := prom.FromMap(map[string]string{
			"gpu": device, "gpu_instance_id": instance, "namespace": namespace, "node": node, "pod": pod, "start": first,
		})
		in := newReadings(start)
		for _, f := range families {
			in.add(f.Name, prom.Vector{{Labels: labels, Value: value}})
		}
		for name, n := range in.nodes {
			if name != node || n.age.age < 0 {
				t.Errorf("node %q, %s old, of %q", name, n.age.age, node)
			}
			for index, c := range n.gpus {
				if index < 0 || node == "" || c.is.value.uuid != "" || c.is.value.model != "" {
					t.Errorf("GPU %d of %q: %+v", index, node, c)
				}
			}
		}
	})
}

// aging is a fake of Prometheus with one exporter's attribution of a given age.
type aging struct {
	age   float64
	err   error
	asked int
}

func (a *aging) Query(_ context.Context, query string, _ time.Time) (prom.Vector, error) {
	if !strings.HasPrefix(query, "gpu_attribution_age_seconds") {
		return nil, a.err
	}
	a.asked++
	return prom.Vector{{Labels: prom.FromMap(map[string]string{"node": "n"}), Value: a.age, Time: start}}, a.err
}

// TestIdlePolling: while idle, Prometheus is queried before its answers become too old. While it does not answer it is
// queried as often as otherwise.
func TestIdlePolling(t *testing.T) {
	for name, each := range map[string]struct {
		prometheus aging
		idle       bool
		asked      int // queries within 61 s
	}{
		"as ever":            {aging{age: 5}, false, 31},
		"idle":               {aging{age: 5}, true, 3},
		"nearly too old":     {aging{age: 21}, true, 11},
		"too old already":    {aging{age: 100}, true, 3},
		"it does not answer": {aging{age: 5, err: prom.ErrUnavailable}, true, 31},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &Prometheus{Querier: &each.prometheus, Every: 2 * time.Second, Log: slog.New(slog.DiscardHandler), MaxAge: 30 * time.Second, Idle: func() bool { return each.idle }}
			ctx, stop := context.WithTimeout(t.Context(), 61*time.Second)
			defer stop()
			require.NoError(t, p.Run(ctx))
		})
		if each.prometheus.asked != each.asked {
			t.Errorf("%s: asked %d times, want %d", name, each.prometheus.asked, each.asked)
		}
	}
}
