package neighbours

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
)

func h100s() Nodes {
	return Nodes{
		Offers: corev1.ResourceList{
			"cpu": resource.MustParse("192"), "memory": resource.MustParse("2000Gi"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("8"),
		},
		Labels: map[string]string{"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"},
	}
}

// TestPools plays every provider that talks to Kubernetes, on one control plane.
func TestPools(t *testing.T) {
	w := newWorld(t)
	w.play((&Machines{Client: w.client, Nodes: h100s()}).Run)
	w.play((&Claims{Client: w.client, Nodes: h100s()}).Run)
	docs := w.manifests()
	on := func(f func(*world, map[string][]*unstructured.Unstructured)) func(*testing.T) {
		return func(t *testing.T) {
			outer := w.t
			defer func() { w.t = outer }()
			w.t = t
			f(w, docs)
		}
	}
	t.Run("Cluster API", on(func(w *world, docs map[string][]*unstructured.Unstructured) {
		w.growAndShrink("capi-h100", docs["capi-h100"])
	}))
	t.Run("Karpenter", on(func(w *world, docs map[string][]*unstructured.Unstructured) {
		w.growAndShrink("karpenter-h100", docs["karpenter-h100"])
	}))
	t.Run("any scale", on((*world).growOnly))
	t.Run("refused", on((*world).refusals))
	t.Run("conditions", on((*world).problems))
}

// growAndShrink buys two nodes for two pods, and gives back the youngest, which
// neither Cluster API's nor Karpenter's double would choose.
func (w *world) growAndShrink(pool string, objects []*unstructured.Unstructured) {
	w.t.Helper()
	w.apply(objects...)
	w.rounds("the pool as it stands", w.count(pool, 1))
	first := slices.Collect(maps.Keys(w.nodesOf(pool)))
	for _, name := range []string{"a", "b", "c"} {
		w.pod(pool+"-"+name, pool, "8")
	}
	w.rounds("a node for each pod", w.count(pool, 3))
	w.eventually("all pods run", func() error {
		var pods corev1.PodList
		if err := w.client.List(w.t.Context(), &pods, client.InNamespace("fleet")); err != nil {
			return err
		}
		for _, p := range pods.Items {
			if strings.HasPrefix(p.Name, pool) && p.Spec.NodeName == "" {
				return fmt.Errorf("%s waits", p.Name)
			}
		}
		return nil
	})
	victim := w.free(pool, first)
	before := w.nodesOf(pool)
	results := w.remove(pool, victim)
	if results[0].Outcome != act.Done {
		w.t.Fatalf("removing %s: %s %v", victim, results[0].Outcome, results[0].Err)
	}
	// Once more, as the next round would: the node may still be there.
	w.remove(pool, victim)
	w.eventually("the node is gone", w.count(pool, 2))
	after := w.nodesOf(pool)
	for name, n := range before {
		got, there := after[name]
		if name == victim == there || there && got.UID != n.UID {
			w.t.Errorf("node %s there: %v; only %s was to go", name, there, victim)
		}
	}
	// It stays so: nothing makes another, and nothing takes a second.
	for range 10 {
		if err := w.loop.Once(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.count(pool, 2)(); err != nil {
		w.t.Error(err)
	}
	if got := w.condition(pool, "Valid"); got != "True Valid: " {
		w.t.Error(got)
	}
	// And it grows again.
	w.pod(pool+"-d", pool, "8")
	w.rounds("another node", w.count(pool, 3))
	for name := range after {
		if _, there := w.nodesOf(pool)[name]; !there {
			w.t.Errorf("node %s went while the pool grew", name)
		}
	}
}

// free empties the node of the pool that came last, and names it.
func (w *world) free(pool string, not []string) string {
	w.t.Helper()
	var pods corev1.PodList
	if err := w.client.List(w.t.Context(), &pods, client.InNamespace("fleet")); err != nil {
		w.t.Fatal(err)
	}
	nodes := w.nodesOf(pool)
	for _, p := range pods.Items {
		if _, ours := nodes[p.Spec.NodeName]; !ours || slices.Contains(not, p.Spec.NodeName) {
			continue
		}
		if err := w.client.Delete(w.t.Context(), &p, client.GracePeriodSeconds(0)); err != nil {
			w.t.Fatal(err)
		}
		w.eventually("the pod is gone", func() error {
			if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(&p), &corev1.Pod{}); err == nil {
				return errors.New("it is still there")
			}
			return nil
		})
		return p.Spec.NodeName
	}
	w.t.Fatal("no pod on a new node")
	return ""
}

// remove carries out one removal, decided on what is there now.
func (w *world) remove(pool, node string) []act.Result {
	w.t.Helper()
	seen, err := w.seen.Observe(w.t.Context(), time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return w.actor.Apply(w.t.Context(), seen.Snapshot, plan.Plan{Actions: []plan.Action{{Verb: plan.RemoveNode, Pool: pool, Node: node, Reason: plan.NodeUnderused}}})
}

// growOnly: a resource of which we only know the scale.
func (w *world) growOnly(docs map[string][]*unstructured.Unstructured) {
	target := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(1)}}}
	target.SetGroupVersionKind(herd)
	target.SetNamespace("fleet")
	target.SetName("l40s")
	w.apply(target)
	w.apply(docs["other"]...)
	w.pod("other-a", "other", "4")
	w.pod("other-b", "other", "4")
	w.rounds("the scale says two", func() error {
		if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(target), target); err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(target.Object, "spec", "replicas"); n != 2 {
			round, _ := w.loop.State.Last()
			return fmt.Errorf("%d replicas; %s, %v", n, w.condition("other", "Valid"), round.Plan.Verdicts)
		}
		return nil
	})
	// Its owner makes a node; nothing may take it away.
	labels := map[string]string{v1alpha1.NodePoolLabel: "other"}
	if _, err := h100s().add(w.t.Context(), w.client, "herd-0", labels); err != nil {
		w.t.Fatal(err)
	}
	var pool v1alpha1.GPUNodePool
	var node corev1.Node
	if err := errors.Join(w.client.Get(w.t.Context(), client.ObjectKey{Name: "other"}, &pool), w.client.Get(w.t.Context(), client.ObjectKey{Name: "herd-0"}, &node)); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("a refusal that says why", func() error {
		if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: "herd-0"}, &node); err != nil {
			w.t.Fatal(err)
		}
		if err := pools.NewScale(w.client, w.client).Delete(w.t.Context(), &pool, []*corev1.Node{&node}); !errors.Is(err, pools.ErrUnnamed) {
			return fmt.Errorf("%w", errors.Join(errors.New("want ErrUnnamed"), err))
		}
		return nil
	})
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(target), target); err != nil {
		w.t.Fatal(err)
	}
	if n, _, _ := unstructured.NestedInt64(target.Object, "spec", "replicas"); n != 2 {
		w.t.Errorf("%d replicas after a refusal", n)
	}
}

// refusals are pools that the API server itself refuses, each for the right reason.
func (w *world) refusals(docs map[string][]*unstructured.Unstructured) {
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	scale := map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "h100"}
	for name, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   string
	}{
		"min above max":       {set(int64(9), "spec", "min"), "min must not be above max"},
		"negative price":      {set("-1", "spec", "pricePerHour"), "must not be below 0"},
		"negative rate":       {set("-0.5", "spec", "interruptionsPerHour"), "must not be below 0"},
		"no provider":         {set(map[string]any{}, "spec", "provider"), "exactly one provider"},
		"two providers":       {set(map[string]any{}, "spec", "provider", "kwok"), ""},
		"scale and kwok":      {set(scale, "spec", "provider", "scale"), "exactly one provider"},
		"no namespace":        {set(map[string]any{"scale": scale}, "spec", "provider"), "need a namespace"},
		"NodePool, namespace": {set(map[string]any{"scale": map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "namespace": "x", "name": "h100"}}, "spec", "provider"), "has no namespace"},
		"a region":            {set(map[string]any{"asg": map[string]any{"name": "a", "region": "Ireland"}}, "spec", "provider"), "spec.provider.asg.region"},
		"queue by http":       {set(map[string]any{"asg": map[string]any{"name": "a", "region": "eu-west-1", "interruptionQueue": "http://q"}}, "spec", "provider"), "https URL"},
		"no cards":            {set(int64(0), "spec", "template", "cards"), "spec.template.cards"},
		"our label":           {set(map[string]any{"gpuscale.io/pool": "x"}, "spec", "template", "labels"), "the pool's own label"},
		"rate without spot":   {set("0.1", "spec", "interruptionsPerHour"), "for spot pools"},
		"1 MB annotation": {func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{"note": strings.Repeat("x", 1<<20)})
		}, "annotations"},
	} {
		u := docs["simulated"][0].DeepCopy()
		u.SetName("bad")
		c.change(u)
		err := w.client.Create(w.t.Context(), u, client.DryRunAll)
		if c.want == "" { // the control: what this changes is allowed
			if err != nil {
				w.t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			w.t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// problems are pools that are taken, and say what is wrong while others go on.
func (w *world) problems(docs map[string][]*unstructured.Unstructured) {
	w.apply(docs["simulated"]...)
	named := func(name string, change func(spec map[string]any)) {
		u := docs["simulated"][0].DeepCopy()
		u.SetName(name)
		change(u.Object["spec"].(map[string]any))
		w.apply(u)
	}
	target := func(apiVersion, kind, name string) func(map[string]any) {
		return func(spec map[string]any) {
			spec["provider"] = map[string]any{"scale": map[string]any{"apiVersion": apiVersion, "kind": kind, "namespace": "fleet", "name": name}}
		}
	}
	named("no-target", target("cluster.x-k8s.io/v1beta2", "MachineDeployment", "none"))
	named("no-kind", target("example.com/v1", "Flock", "none"))
	named("shared", target("cluster.x-k8s.io/v1beta1", "MachineDeployment", "h100"))
	named("toaster", func(spec map[string]any) { spec["template"].(map[string]any)["product"] = "NVIDIA-TOASTER" })
	named("profile", func(spec map[string]any) {
		spec["mig"] = map[string]any{"allowedProfiles": []any{"1g.5gb"}}
	})
	named("boot", func(spec map[string]any) {
		spec["mig"] = map[string]any{"bootLayout": []any{map[string]any{"3g.40gb": int64(3)}}}
	})
	w.says("no-target", "Valid", "False", "TargetNotFound", "spec.provider.scale.name", "create it")
	w.says("no-kind", "Valid", "False", "TargetNotFound", "spec.provider.scale.apiVersion", "install its CRD")
	w.says("shared", "Valid", "False", "TargetShared", "pool capi-h100")
	w.says("toaster", "Valid", "False", "spec.template.product", "NVIDIA-TOASTER")
	w.says("profile", "Valid", "False", "spec.mig.allowedProfiles[0]", "1g.5gb")
	w.says("boot", "Valid", "False", "spec.mig.bootLayout[0]")

	// Others went on: this one buys.
	w.pod("simulated-a", "simulated", "8")
	w.rounds("another pool grows", w.count("simulated", 1))

	w.foreign()
}

// foreign: cluster-autoscaler is set upon a pool of ours, and taken off it.
func (w *world) foreign() {
	annotate := func(value any) {
		w.t.Helper()
		gvk := schema.GroupVersionKind{Group: capi.Group, Version: capi.Version, Kind: "MachineDeployment"}
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "fleet", Name: "h100"}, u); err != nil {
			w.t.Fatal(err)
		}
		before := u.DeepCopy()
		a := u.GetAnnotations()
		delete(a, "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size")
		if value != nil {
			a = maps.Clone(a)
			if a == nil {
				a = map[string]string{}
			}
			a["cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"] = fmt.Sprint(value)
		}
		u.SetAnnotations(a)
		if err := w.client.Patch(w.t.Context(), u, client.MergeFrom(before)); err != nil {
			w.t.Fatal(err)
		}
	}
	have := len(w.nodesOf("capi-h100"))
	annotate(1)
	w.says("capi-h100", "ForeignAutoscaler", "True", "cluster-autoscaler", "take one of them off")
	w.pod("capi-h100-e", "capi-h100", "8")
	for range 5 {
		if err := w.loop.Once(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.count("capi-h100", have)(); err != nil {
		w.t.Errorf("held: %v", err)
	}
	annotate(nil)
	w.rounds("it is ours again", w.count("capi-h100", have+1))
	if got := w.condition("capi-h100", "ForeignAutoscaler"); got != "" {
		w.t.Errorf("ForeignAutoscaler is still there: %s", got)
	}
}
