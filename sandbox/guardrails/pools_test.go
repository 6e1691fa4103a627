package guardrails

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// fleet is the namespace of the pools' targets in docs/pools.md.
const fleet = "fleet"

// TestPools tests the pools of docs/pools.md whose providers use the Kubernetes API. TestNeighbourKarpenter
// tests Karpenter with Karpenter itself.
func TestPools(t *testing.T) {
	w := newWorld(t, setup{})
	w.must(w.Namespace(t.Context(), fleet, nil))
	w.must(w.InstallSources(t.Context(), neighbours.ClusterAPI()))
	w.play((&neighbours.Machines{Client: w.Admin, Nodes: fakeNodes()}).Run, neighbours.ClusterAPIKinds()...)
	w.fakes = append(w.fakes, herdKind)
	docs := w.manifests()
	for _, part := range []struct {
		name string
		run  func()
	}{
		{"Cluster API", func() { w.growAndShrink("capi-h100", docs["capi-h100"]) }},
		{"any scale", func() { w.growOnly(docs["other"]) }},
		{"conditions", func() { w.problems(w.objects("pool-simulated.yaml")[0]) }},
	} {
		t.Run(part.name, func(t *testing.T) {
			outer := w.t
			defer func() { w.t = outer }()
			w.t = t
			part.run()
		})
	}
}

var herdKind = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Herd"}

// manifests returns the YAML blocks of docs/pools.md by the name of their pool.
func (w *world) manifests() map[string][]*unstructured.Unstructured {
	w.t.Helper()
	out := map[string][]*unstructured.Unstructured{}
	for i, block := range testenv.YAMLBlocks(w.t, "../../docs/pools.md") {
		objects, err := neighbours.Parse([]byte(block))
		if err != nil || len(objects) == 0 {
			w.t.Fatalf("block %d of docs/pools.md: %v", i+1, err)
		}
		out[objects[len(objects)-1].GetName()] = objects
	}
	return out
}

// podFor creates a pod that requests GPUs on a node of the pool.
func (w *world) podFor(name, pool string, gpus int64) {
	w.t.Helper()
	w.must(w.Create(w.t.Context(), fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {namespace: %s, name: %s, labels: {app: %[3]s}}, spec: {
		nodeSelector: {%[5]s: %[3]s}, containers: [{name: train, image: example/train, resources: {limits: {nvidia.com/gpu: "%[4]d"}}}]}}`,
		w.namespace(), name, pool, gpus, v1alpha1.NodePoolLabel)))
}

// says returns a function for await and until: a condition of the pool must contain all words.
func (w *world) says(pool, kind string, words ...string) func() error {
	return func() error {
		text := w.condition(pool, kind)
		for _, word := range words {
			if !strings.Contains(text, word) {
				return fmt.Errorf("%s of pool %s is %q, which lacks %q", kind, pool, text, word)
			}
		}
		return nil
	}
}

// growAndShrink adds two nodes for two pods and removes one of them by name. Cluster API would choose the
// oldest by itself.
func (w *world) growAndShrink(pool string, objects []*unstructured.Unstructured) {
	w.t.Helper()
	w.apply(objects...)
	w.until("the pool as it stands", w.has(pool, 1))
	first := w.nodes(pool)[0].Name
	for _, name := range []string{"a", "b", "c"} {
		w.podFor(pool+"-"+name, pool, perNode)
	}
	w.until("a node for each pod", w.has(pool, 3))
	w.await("all pods run", w.runs(pool, 3))
	victim := ""
	for _, p := range w.pods(pool) {
		if victim == "" && p.Spec.NodeName != first {
			victim = p.Spec.NodeName
			w.must(w.Delete(w.t.Context(), &p))
		}
	}
	before := w.nodes(pool)
	for _, want := range []act.Outcome{act.Waiting, act.Done} { // the first attempt only cordons it
		if r := w.remove(pool, victim); r.Outcome != want {
			w.t.Fatalf("removing %s: %s %v, want %s", victim, r.Outcome, r.Err, want)
		}
		w.pass(plan.RemoveDelay)
	}
	// Again, as the next reconcile would do it: the node may still exist.
	w.remove(pool, victim)
	w.await("the node is gone", w.has(pool, 2))
	for _, n := range before {
		var now corev1.Node
		err := w.Admin.Get(w.t.Context(), client.ObjectKeyFromObject(&n), &now)
		if there := err == nil && now.UID == n.UID; there == (n.Name == victim) {
			w.t.Errorf("node %s there: %v; only %s was to go: %v", n.Name, there, victim, err)
		}
	}
	w.reconciles(10) // no node is created again, and no second one is removed
	require.NoError(w.t, w.has(pool, 2)())
	if got := w.condition(pool, "Valid"); got != "True Valid: " {
		w.t.Error(got)
	}
	left := w.nodes(pool)
	w.podFor(pool+"-d", pool, perNode)
	w.until("another node", w.has(pool, 3))
	for _, n := range left {
		if w.node(n.Name).UID != n.UID {
			w.t.Errorf("node %s went while the pool grew", n.Name)
		}
	}
}

// growOnly tests a provider with a resource of which only the scale subresource is known.
func (w *world) growOnly(pool []*unstructured.Unstructured) {
	target := testenv.Object("example.org/v1/Herd", fleet, "l40s")
	target.Object["spec"] = map[string]any{"replicas": int64(1)}
	w.apply(target)
	w.apply(pool...)
	w.podFor("other-a", "other", 4)
	w.podFor("other-b", "other", 4)
	replicas := func() int64 {
		w.must(w.Admin.Get(w.t.Context(), client.ObjectKeyFromObject(target), target))
		n, _, _ := unstructured.NestedInt64(target.Object, "spec", "replicas")
		return n
	}
	w.until("the scale is two", func() error {
		if n := replicas(); n != 2 {
			last, _ := w.loop.State.Last()
			return fmt.Errorf("%d replicas; %s, %v", n, w.condition("other", "Valid"), last.Plan.Verdicts)
		}
		return nil
	})
	// The resource's owner creates a node. Nothing may remove it.
	_, err := fakeNodes().Add(w.t.Context(), w.Admin, "herd-0", map[string]string{v1alpha1.NodePoolLabel: "other"})
	w.must(err)
	w.await("a refusal that has the reason", func() error {
		if err := pools.NewScale(w.Admin, w.Admin).Delete(w.t.Context(), w.get("other"), w.node("herd-0"), false); !errors.Is(err, pools.ErrUnnamed) {
			return fmt.Errorf("want ErrUnnamed: %w", errors.Join(err))
		}
		return nil
	})
	if n := replicas(); n != 2 {
		w.t.Errorf("%d replicas after a refusal", n)
	}
}

// problems tests pools that are accepted but report a problem, while other pools go on.
func (w *world) problems(simulated *unstructured.Unstructured) {
	w.apply(simulated)
	text, err := os.ReadFile("testdata/problems.yaml")
	w.must(err)
	var problems []struct {
		Name string
		Spec json.RawMessage
		Says []string
	}
	w.must(yaml.UnmarshalStrict(text, &problems))
	for _, p := range problems {
		u := simulated.DeepCopy()
		u.SetName(p.Name)
		w.must(unstructured.SetNestedField(u.Object, p.Name, "spec", "provider", "externalGRPC", "nodeGroup"))
		w.apply(u)
		w.must(w.Admin.Patch(w.t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"spec":`+string(p.Spec)+`}`))))
	}
	for _, p := range problems {
		w.until(p.Name+" says what is wrong", w.says(p.Name, "Valid", append(p.Says, "False")...))
	}

	// This pool has no problem and adds a node.
	w.podFor("simulated-a", "simulated", perNode)
	w.until("another pool grows", w.has("simulated", 1))

	// cluster-autoscaler is configured for one of our pools, and later no longer.
	annotate := func(value string) {
		u := testenv.Object("cluster.x-k8s.io/v1beta2/MachineDeployment", fleet, "h100")
		patch := `{"metadata":{"annotations":{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size":` + value + `}}}`
		w.must(w.Admin.Patch(w.t.Context(), u, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	have := len(w.nodes("capi-h100"))
	annotate(`"1"`)
	w.until("it is another's, too", w.says("capi-h100", "ForeignAutoscaler", "True", "cluster-autoscaler", "remove one of them from it"))
	w.podFor("capi-h100-e", "capi-h100", perNode)
	w.reconciles(5)
	if err := w.has("capi-h100", have)(); err != nil {
		w.t.Errorf("the pool has changed: %v", err)
	}
	annotate("null")
	w.until("it is ours again", w.has("capi-h100", have+1))
	if got := w.condition("capi-h100", "ForeignAutoscaler"); got != "" {
		w.t.Errorf("ForeignAutoscaler is still there: %s", got)
	}
}
