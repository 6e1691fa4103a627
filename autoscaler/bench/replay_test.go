package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/events"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan"
)

// BenchmarkBurst is what the rounds of a burst of 2,000 pods on 1,000 full nodes take
// of the processor: 60 rounds, over the first 40 of which the pods come, through the
// code that observes, plans and publishes, and Prometheus' answers every second round.
// The cluster is a double in memory, so neither watches nor writes are in it. Goal:
// 1.5 s, of the 2 s that the whole program has.
func BenchmarkBurst(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		r := newReplay(b, 1000)
		r.turn() // what is kept from the rounds before is there
		r.spent = 0
		b.StartTimer()
		const pods, coming, rounds = 2000, 40, 60
		for n := range rounds {
			for i := n * pods / coming; i < min(n+1, coming)*pods/coming; i++ {
				r.make(i)
			}
			if n%2 == 0 {
				r.ask()
			}
			r.turn()
			r.boot()
			r.schedule()
		}
		b.ReportMetric(r.spent.Seconds()*1000, "cpu-ms/op")
		b.ReportMetric(float64(r.asked), "readings")
		if left := r.waiting(); left > 0 {
			b.Fatalf("%d pods wait", left)
		}
		b.ReportMetric(float64(r.target()), "nodes")
	}
}

// BenchmarkQuietRound is one round of the same cluster in which nothing happens.
func BenchmarkQuietRound(b *testing.B) {
	r := newReplay(b, 1000)
	r.turn()
	before := processor(b)
	b.ReportAllocs()
	for b.Loop() {
		r.turn()
	}
	b.ReportMetric((processor(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// BenchmarkAnswers is one reading of what the exporters of 1,000 nodes of eight cards
// say, 40,000 series, from their answers to what a round asks for; Prometheus' double
// answers from memory, and its part is in it.
func BenchmarkAnswers(b *testing.B) {
	r := newReplay(b, 1000)
	r.read()
	before := processor(b)
	b.ReportAllocs()
	for b.Loop() {
		r.read()
	}
	b.ReportMetric((processor(b)-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// processor is what this process has used, which a busy machine does not lengthen.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// replay is a cluster in memory with the loop over it.
type replay struct {
	b        *testing.B
	store    *memoryStore
	cards    *exporters
	prom     *prom.Client
	readings *observe.Readings
	loop     *loop.Loop
	now      time.Time
	version  int
	free     map[string]int // cards, by node
	spent    time.Duration  // of the processor, doubles left out
	asked    int            // readings
	last     time.Time      // reading
}

func newReplay(b *testing.B, nodes int) *replay {
	cards, err := startExporters()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cards.stop)
	r := &replay{b: b, cards: cards, store: newMemoryStore(), now: time.Now().Truncate(time.Second), free: map[string]int{}}
	if r.prom, err = prom.New(prom.Config{URL: cards.URL, Timeout: 20 * time.Second}); err != nil {
		b.Fatal(err)
	}
	r.store.pools = append(r.store.pools, *pool(poolBase, nodes, nodes, 98, false), *pool(growing(0), 0, 20_000, 90, true))
	r.store.target = map[string]int{poolBase: nodes}
	for n := range nodes {
		node := r.node(nodeOf(fmt.Sprintf("base-%05d", n), poolBase))
		each := []int{8, 4, 1}[n%3]
		for i := range cardsOfNode / each {
			p := r.pod(podOf(fmt.Sprintf("base-%05d-%d", n, i), whole, each))
			r.bind(p, node.Name)
		}
	}
	r.read()
	policy := plan.DefaultPolicy()
	policy.MaxNodesPerScaleUp, policy.MaxNodesPerHour = 10000, 100000
	log := slog.New(slog.DiscardHandler)
	r.loop = loop.New(loop.Options{
		Observer: observe.New(observe.Options{
			Cluster: r.store, Pods: r.store.listPods, Readings: func() *observe.Readings { return r.readings }, Pools: providers{r.store}, ConfigMap: partition.DefaultConfigMap, Log: log,
		}),
		Actor: actor{r.store}, Store: r.store, Policy: policy, Now: func() time.Time { return r.now },
		Publisher: loop.NewAnnouncer(r.store, events.New(events.Options{Scheme: scheme.New(), Controller: "bench", Instance: "bench", Log: log}), log),
		Metrics:   loop.NewMetrics(prometheus.NewRegistry()), Log: log,
	})
	return r
}

// turn is a round, a second after the last.
func (r *replay) turn() {
	r.now = r.now.Add(time.Second)
	before := processor(r.b)
	defer func() { r.spent += processor(r.b) - before }()
	if err := r.loop.Once(r.b.Context()); err != nil {
		r.b.Fatal(err)
	}
}

// ask is every two seconds, or every ten while nothing depends on it.
func (r *replay) ask() {
	if r.loop.State.Unhurried() && r.now.Sub(r.last) < 10*time.Second {
		return
	}
	r.read() // its double writes its answers now, which is not our time
	r.asked++
	before := processor(r.b)
	r.read()
	r.spent += processor(r.b) - before
}

// read asks Prometheus.
func (r *replay) read() {
	readings, err := observe.Read(r.b.Context(), r.prom, r.now)
	if err != nil {
		r.b.Fatal(err)
	}
	r.readings, r.last = readings, r.now
}

func (r *replay) node(n *corev1.Node) *corev1.Node {
	r.stamp(&n.ObjectMeta)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	r.store.nodes[n.Name] = n
	r.free[n.Name] = cardsOfNode
	r.cards.add(n)
	return n
}

func (r *replay) pod(p *corev1.Pod) *corev1.Pod {
	r.stamp(&p.ObjectMeta)
	r.store.pods[p.Name] = p
	return p
}

func (r *replay) stamp(m *metav1.ObjectMeta) {
	r.version++
	m.UID, m.ResourceVersion, m.CreationTimestamp = types.UID(m.Name), strconv.Itoa(r.version), metav1.NewTime(r.now)
}

// make is the nth pod of the burst, for which the scheduler finds no node.
func (r *replay) make(n int) {
	p := podOf(fmt.Sprintf("burst-%05d", n), whole, wants(n))
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(r.now)}}
	r.pod(p)
	r.store.wait = append(r.store.wait, p.Name)
}

// boot makes the nodes that were asked for.
func (r *replay) boot() {
	grow := growing(0)
	for len(r.store.grown) < r.store.target[grow] {
		n := r.node(nodeOf(fmt.Sprintf("%s-%05d", grow, len(r.store.grown)), grow))
		r.store.grown = append(r.store.grown, n.Name)
	}
}

// schedule binds what fits, each pod to the fullest node.
func (r *replay) schedule() {
	left := r.store.wait[:0]
	for _, name := range r.store.wait {
		p, best := r.store.pods[name], ""
		q := p.Spec.Containers[0].Resources.Requests[whole]
		for _, n := range r.store.grown {
			if free := r.free[n]; free >= int(q.Value()) && (best == "" || free < r.free[best]) {
				best = n
			}
		}
		if best == "" {
			left = append(left, name)
			continue
		}
		r.bind(p, best)
	}
	r.store.wait = left
}

// bind is a new object, as a cache has it.
func (r *replay) bind(p *corev1.Pod, node string) {
	p = p.DeepCopy()
	created := p.CreationTimestamp
	r.stamp(&p.ObjectMeta)
	p.CreationTimestamp = created
	p.Spec.NodeName, p.Status.Phase, p.Status.Conditions = node, corev1.PodRunning, nil
	r.store.pods[p.Name] = p
	q := p.Spec.Containers[0].Resources.Requests[whole]
	r.free[node] -= int(q.Value())
	r.cards.hold(p)
}

func (r *replay) waiting() int { return len(r.store.wait) }

func (r *replay) target() int { return r.store.target[growing(0)] }

// memoryStore is a double of the caches, the providers and what acts: a resize is
// done at once, and every other write is taken and forgotten.
type memoryStore struct {
	client.Client
	nodes  map[string]*corev1.Node
	pods   map[string]*corev1.Pod
	pools  []v1alpha1.GPUNodePool
	target map[string]int
	grown  []string
	wait   []string
}

func newMemoryStore() *memoryStore {
	return &memoryStore{nodes: map[string]*corev1.Node{}, pods: map[string]*corev1.Pod{}}
}

// listPods is as the program lists its cache.
func (m *memoryStore) listPods(context.Context) ([]*corev1.Pod, error) {
	out := make([]*corev1.Pod, 0, len(m.pods))
	for _, p := range m.pods {
		out = append(out, p)
	}
	return out, nil
}

// List is as controller-runtime's cache does it without deep copies.
func (m *memoryStore) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	var all []runtime.Object
	switch list.(type) {
	case *corev1.NodeList:
		for _, n := range m.nodes {
			all = append(all, n)
		}
	case *corev1.PodList:
		for _, p := range m.pods {
			all = append(all, p)
		}
	case *v1alpha1.GPUNodePoolList:
		for i := range m.pools {
			all = append(all, m.pools[i].DeepCopy())
		}
	}
	return meta.SetList(list, all)
}

func (m *memoryStore) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if p, ok := o.(*corev1.Pod); ok && m.pods[key.Name] != nil {
		m.pods[key.Name].DeepCopyInto(p)
		return nil
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, key.Name)
}

func (m *memoryStore) Status() client.SubResourceWriter { return statusWriter{store: m} }

// statusWriter takes the status of pools.
type statusWriter struct {
	client.SubResourceWriter
	store *memoryStore
}

func (w statusWriter) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	for i := range w.store.pools {
		if p, ok := o.(*v1alpha1.GPUNodePool); ok && w.store.pools[i].Name == p.Name {
			w.store.pools[i] = *p.DeepCopy()
		}
	}
	return nil
}

// providers is the double as observing sees it.
type providers struct{ *memoryStore }

func (p providers) List(_ context.Context, pool *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return pools.Listing{Target: p.target[pool.Name]}, nil
}

func (m *memoryStore) Load(context.Context) (plan.Memory, error)              { return plan.Memory{}, nil }
func (m *memoryStore) Save(context.Context, plan.Snapshot, plan.Memory) error { return nil }
func (m *memoryStore) Resume(context.Context, time.Time) error                { return nil }
func (m *memoryStore) Learn(*v1alpha1.GPUNodePool, int, []*corev1.Node) pools.Learned {
	return pools.Learned{}
}

// actor is the double as what carries out plans.
type actor struct{ *memoryStore }

func (m actor) Apply(_ context.Context, _ plan.Snapshot, p plan.Plan) []act.Result {
	var out []act.Result
	for _, a := range p.Actions {
		if a.Verb == plan.ScaleUp {
			m.target[a.Pool] = a.To
		}
		out = append(out, act.Result{Action: a, Outcome: act.Done})
	}
	return out
}

func (m *memoryStore) Template(*v1alpha1.GPUNodePool, mig.Tables) (plan.Template, error) {
	n := nodeOf("any", "any")
	model := plan.Card{}
	model.Model.Name, model.Model.Vendor, model.Model.MemoryMiB = "H100-80GB", "nvidia", 81559
	t := plan.Template{CPUMilli: 128000, MemoryMi: 2 << 20, Labels: n.Labels}
	for i := range cardsOfNode {
		model.Index = i
		t.Cards = append(t.Cards, model)
	}
	return t, nil
}
