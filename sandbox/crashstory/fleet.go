package crashstory

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// hardware of each pool's nodes.
var hardware = map[string]struct {
	product string
	gpus    int
	layout  story.Layout
}{
	poolRepartition: {"NVIDIA-H100-80GB-HBM3", 1, story.Layout{{"1g.10gb": 7}}},
	poolWhole:       {"NVIDIA-L40S", 2, nil},
}

// delays of the fakes: the order of things is what counts here.
var delays = node.Delays{Pause: 100 * time.Millisecond, Apply: 100 * time.Millisecond, Enumerate: 100 * time.Millisecond}

// fleet plays the machines of the nodes that there are.
type fleet struct {
	client kubernetes.Interface
	view   *view
	log    *slog.Logger

	mu               sync.Mutex
	hosts            map[string]*host // by node name
	repartitionsDone int              // changes of a GPU's layout, since reset
	asked            int              // readings begun, ever
}

type host struct {
	uid   types.UID
	agent *node.Agent
}

func newFleet(client kubernetes.Interface, v *view, log *slog.Logger) *fleet {
	return &fleet{client: client, view: v, log: log, hosts: map[string]*host{}}
}

// run steps until ctx ends. What fails is tried again with the next step.
func (f *fleet) run(ctx context.Context) {
	wait.UntilWithContext(ctx, f.step, 25*time.Millisecond)
}

func (f *fleet) step(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	here := map[string]bool{}
	for _, n := range f.view.nodeList() {
		here[n.Name] = true
		h := f.hosts[n.Name]
		if h == nil || h.uid != n.UID {
			var err error
			if h, err = f.boot(ctx, n); err != nil {
				f.log.Debug("booting", "node", n.Name, "err", err)
				continue
			}
			f.hosts[n.Name] = h
		}
		before := h.agent.Machine.GPUs()
		if err := h.agent.Step(ctx, n, f.view.PodsOn(n.Name), f.view.MIGConfig(), time.Now()); err != nil {
			f.log.Debug("stepping", "node", n.Name, "err", err)
		}
		for i, c := range h.agent.Machine.GPUs() {
			if !reflect.DeepEqual(c, before[i]) {
				f.repartitionsDone++
			}
		}
	}
	for name := range f.hosts {
		if !here[name] {
			delete(f.hosts, name)
		}
	}
}

func (f *fleet) boot(ctx context.Context, n *corev1.Node) (*host, error) {
	hw, ok := hardware[n.Labels[v1alpha1.NodePoolLabel]]
	if !ok {
		return nil, fmt.Errorf("node %s is of no pool of the story", n.Name)
	}
	layouts, err := story.Place(hw.product, hw.gpus, hw.layout)
	if err != nil {
		return nil, err
	}
	m, err := node.New(node.Spec{Name: n.Name, Product: hw.product, GPUs: hw.gpus, Layouts: layouts, Delays: delays}, time.Now())
	if err != nil {
		return nil, err
	}
	agent := node.NewAgent(m, f.client, f.log)
	return &host{uid: n.UID, agent: agent}, agent.Join(ctx)
}

// reset forgets what was counted and returns it.
func (f *fleet) reset() (repartitionsDone int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	repartitionsDone, f.repartitionsDone = f.repartitionsDone, 0
	return repartitionsDone
}

func (f *fleet) repartitions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.repartitionsDone
}

// answer is what Prometheus would say: that of the exporters of all machines, as
// fresh as can be.
func (f *fleet) answer(query string) promtest.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	if testenv.Queried(query) == metric.GPUAttributionAgeSeconds.Name { // the first of every reading
		f.asked++
	}
	var out []promtest.Series
	for _, h := range f.hosts {
		h.agent.Lock.Lock()
		out = append(out, testenv.ExporterSeries(query, h.agent.Machine)...)
		h.agent.Lock.Unlock()
	}
	return promtest.Response{Vector: out}
}

// readings that have been begun.
func (f *fleet) readings() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}
