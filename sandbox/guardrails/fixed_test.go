package guardrails

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// rack is a fixed set of machines: Node objects that no provider makes again, whose
// kubelets KWOK plays. Device plugin, feature discovery and mig-manager are the
// sandbox's fakes, which the test steps.
type rack struct {
	*world
	begun time.Time // by the clock of the audit log
}

// newRack is a world with a fixed pool of that name, and machines of two GPUs,
// partitioned by the layout or whole. The autoscaler's Events go to the API server.
func newRack(t *testing.T, pool, layout string, names ...string) *rack {
	t.Helper()
	w := newWorld(t, setup{events: true})
	r := &rack{world: w, begun: time.Now()}
	spec := node.Spec{Product: product, GPUs: 2}
	if layout != "" {
		table, _ := mig.ForModel("H100-80GB")
		l, err := mig.ParseLayout(table, layout)
		w.must(err)
		spec.Layouts = []mig.Layout{l}
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	for _, name := range names {
		spec.Name = name
		machine, err := node.New(spec, w.now())
		w.must(err)
		w.exporters.agents = append(w.exporters.agents, node.NewAgent(machine, w.Cluster.Client(), log))
		w.must(w.Admin.Create(t.Context(), r.object(machine, pool)))
	}
	w.must(client.IgnoreAlreadyExists(w.Admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: partition.DefaultConfigMap.Namespace}})))
	return r
}

// object is the Node of a machine, as its owner has joined and labelled it.
func (r *rack) object(m *node.Machine, pool string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name(), Labels: m.DiscoveryLabels(), Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}}}
	for k, v := range node.DeployLabels() {
		n.Labels[k] = v
	}
	n.Labels[v1alpha1.NodePoolLabel], n.Labels[corev1.LabelHostname] = pool, m.Name()
	has := corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110")}
	for name, count := range m.Allocatable(r.now()) {
		has[corev1.ResourceName(name)] = *resource.NewQuantity(int64(count), resource.DecimalSI)
	}
	n.Status.Allocatable, n.Status.Capacity = has, has.DeepCopy()
	return n
}

// step lets the software of all machines work once.
func (r *rack) step() {
	r.t.Helper()
	bound, err := r.bound()
	r.must(err)
	var cm corev1.ConfigMap
	r.must(client.IgnoreNotFound(r.Admin.Get(r.t.Context(), partition.DefaultConfigMap, &cm)))
	for _, a := range r.exporters.agents {
		name := a.Machine.Name()
		r.must(a.Step(r.t.Context(), r.node(name), bound[name], []byte(cm.Data[partition.ConfigKey]), r.now()))
	}
}

// comesTo steps machines and autoscaler until ok returns nil.
func (r *rack) comesTo(what string, ok func() error) {
	r.t.Helper()
	r.until(what, func() error {
		r.step()
		return ok()
	})
}

// fixed is the pool of the machines.
func (r *rack) fixed(name string, change ...func(*v1alpha1.GPUNodePool)) {
	r.t.Helper()
	r.pool(name, 0, 0, append(change, func(p *v1alpha1.GPUNodePool) {
		p.Spec.Provider = v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}
		p.Spec.Template.GPUs = 2
	})...)
}

// requests is for work: so many of a resource, instead of whole GPUs.
func requests(name string, count int64) func(*corev1.PodTemplateSpec) {
	return func(p *corev1.PodTemplateSpec) {
		list := corev1.ResourceList{corev1.ResourceName(name): *resource.NewQuantity(count, resource.DecimalSI)}
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	}
}

// resized are the writes of the autoscaler that made or deleted a node.
func (r *rack) resized() []testenv.Call {
	return r.writes(r.t, autoscalerUser, func(e testenv.Call) bool {
		made := e.Verb == "create" && e.ObjectRef.Subresource == ""
		return e.ObjectRef.Resource == "nodes" && (made || strings.HasPrefix(e.Verb, "delete")) && !e.RequestReceivedTimestamp.Before(r.begun)
	})
}

// touched are its writes to nodes of any kind, and its evictions.
func (r *rack) touched() []testenv.Call {
	return r.writes(r.t, autoscalerUser, func(e testenv.Call) bool {
		return (e.ObjectRef.Resource == "nodes" || e.ObjectRef.Subresource == "eviction") && !e.RequestReceivedTimestamp.Before(r.begun)
	})
}

// eventsOf are the autoscaler's Events of a pod, "Type Reason: note".
func (r *rack) eventsOf(pod string) []string {
	r.t.Helper()
	var list corev1.EventList
	r.must(r.Admin.List(r.t.Context(), &list, client.InNamespace(r.namespace())))
	var out []string
	for _, e := range list.Items {
		if e.InvolvedObject.Name == pod && e.Source.Component == "gpuscale-autoscaler" {
			out = append(out, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Message))
		}
	}
	return out
}

// TestFixedPoolKeepsItsSize: machines without a provider. A pod that fits nowhere gets
// one Event, that the pool is fixed; a machine that is empty for hours, one with a sick
// GPU and one that is not ready stay, and nothing is ever written to any of them.
func TestFixedPoolKeepsItsSize(t *testing.T) {
	r := newRack(t, "rack", "", "rack-a", "rack-b")
	r.fixed("rack", func(p *v1alpha1.GPUNodePool) { p.Spec.ScaleDown.IdleAfter = &metav1.Duration{Duration: time.Minute} })
	r.comesTo("both are there", r.says("rack", "Ready", "True AllReady"))
	if s := r.get("rack").Status; s.Size != 2 || s.Target != 2 || s.Ready != 2 || s.Upcoming != 0 {
		t.Errorf("size %d, target %d, ready %d, upcoming %d", s.Size, s.Target, s.Ready, s.Upcoming)
	}
	r.elapse(12 * time.Minute)
	for _, name := range []string{"rack-a", "rack-b"} {
		if v := verdict(r.world, plan.KindNode, name); v.Reason != plan.PoolFixed || !strings.HasPrefix(v.Detail, "empty for") {
			t.Errorf("an empty machine: %s", v)
		}
	}

	r.work("fill", "rack", 2, 2)
	r.comesTo("they are full", r.runs("fill", 2))
	r.step() // and the device managers have seen it
	r.work("late", "rack", 1, 1)
	r.await("one waits", r.waits("late", 1))
	late := r.pods("late")[0].Name
	r.comesTo("its Event has the reason", func() error {
		events := r.eventsOf(late)
		if !slices.ContainsFunc(events, func(s string) bool {
			return strings.HasPrefix(s, "Warning PoolFixed: rack: fixed pool") && !strings.Contains(s, "\n")
		}) {
			return fmt.Errorf("its Events: %q", events)
		}
		return nil
	})
	if events := r.eventsOf(late); len(events) != 1 {
		t.Errorf("%d Events: %q", len(events), events)
	}
	if c := r.condition("rack", "ScalingLimited"); !strings.HasPrefix(c, "False") {
		t.Errorf("the pool is as it is meant to be: %s", c)
	}

	placed := r.pods("fill")
	r.exporters.set(func() { r.exporters.sick["rack-a"] = true })
	r.reconcile()
	r.elapse(12 * time.Minute)
	if v := verdict(r.world, plan.KindNode, "rack-a"); v.Reason != plan.NodeSick || !strings.Contains(v.Detail, "the pool is fixed") {
		t.Errorf("a sick machine: %s", v)
	}
	for _, p := range r.pods("fill") {
		if !slices.ContainsFunc(placed, func(q corev1.Pod) bool { return q.UID == p.UID }) {
			t.Errorf("pod %s is not there any more", p.Name)
		}
	}

	r.down("rack-b", corev1.ConditionFalse)
	r.comesTo("one is away", r.says("rack", "Ready", "False NotAllReady: 1 of 2"))
	r.elapse(30 * time.Minute)
	if writes := r.touched(); len(writes) > 0 {
		t.Errorf("the autoscaler has written to machines: %v", writes)
	}
	if n := len(r.nodes("rack")); n != 2 {
		t.Errorf("%d machines", n)
	}
}

// TestFixedPoolIsRepartitioned: GPUs of a fixed pool are repartitioned as in any other,
// and a pod that no layout serves gets one Event; the machines are the same before and
// after.
func TestFixedPoolIsRepartitioned(t *testing.T) {
	r := newRack(t, "sliced", "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6", "sliced-a")
	r.fixed("sliced", func(p *v1alpha1.GPUNodePool) {
		p.Spec.MIG = &v1alpha1.MIG{Actuator: contract.ActuatorManager, BootLayout: []map[string]int32{{"1g.10gb": 7}}, IdleAfter: &metav1.Duration{}}
	})
	before := r.node("sliced-a")
	r.comesTo("it is there", r.says("sliced", "Ready", "True AllReady"))
	half := "nvidia.com/mig-3g.40gb"
	r.work("half", "sliced", 2, 0, requests(half, 1))
	r.await("they wait", r.waits("half", 2))
	r.comesTo("a GPU is repartitioned for both", r.runs("half", 2))
	r.comesTo("the node is released", func() error { return r.untouched("sliced-a") })
	r.work("small", "sliced", 7, 0, requests("nvidia.com/mig-1g.10gb", 1))
	r.comesTo("the other GPU is taken, too", r.runs("small", 7))
	r.step()
	r.work("more", "sliced", 1, 0, requests(half, 1))
	r.await("one waits", r.waits("more", 1))
	more := r.pods("more")[0].Name
	r.comesTo("its Event has the reason", func() error {
		events := r.eventsOf(more)
		if len(events) == 0 || !strings.HasPrefix(events[len(events)-1], "Warning PoolFixed: sliced: fixed pool") || !strings.Contains(events[len(events)-1], "; no GPU can be repartitioned: ") {
			return fmt.Errorf("its Events: %q", events)
		}
		return nil
	})
	if n := r.node("sliced-a"); n.UID != before.UID {
		t.Error("it is another node")
	}
	if writes := r.resized(); len(writes) > 0 {
		t.Errorf("nodes were made or deleted: %v", writes)
	}
	repartitions := r.writes(t, autoscalerUser, func(e testenv.Call) bool { return e.ObjectRef.Name == "sliced-a" && e.Verb == "patch" })
	if len(repartitions) == 0 {
		t.Error("the audit log has none of the writes that repartition its GPU: it would have none that delete it either")
	}
}

// TestFixedPoolWithoutMachines: a missing node label is a condition of the pool.
func TestFixedPoolWithoutMachines(t *testing.T) {
	r := newRack(t, "elsewhere", "", "other-a")
	r.fixed("bare")
	r.comesTo("the condition names the label", r.says("bare", "Ready", "False NoNodes: no node has the label gpuscale.io/pool=bare"))
	r.patchNode("other-a", func(n *corev1.Node) { n.Labels[v1alpha1.NodePoolLabel] = "bare" })
	r.comesTo("labelled, it is of the pool", r.says("bare", "Ready", "True AllReady"))
}
