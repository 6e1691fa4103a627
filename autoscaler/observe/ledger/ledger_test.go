package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// read builds a ledger from YAML; later objects are younger.
func read(t *testing.T, text string) *Ledger {
	t.Helper()
	in := Input{Objects: foreign.Objects{}}
	for i, doc := range strings.Split(text, "\n---\n") {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		u.SetCreationTimestamp(metav1.NewTime(start.Add(time.Duration(i) * time.Minute)))
		text, err := yaml.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		switch gvk := u.GroupVersionKind(); gvk.Kind {
		case "GPUQuota":
			var q v1alpha1.GPUQuota
			must(t, yaml.UnmarshalStrict(text, &q))
			in.Quotas = append(in.Quotas, q)
		case "ResourceQuota":
			var q corev1.ResourceQuota
			must(t, yaml.UnmarshalStrict(text, &q))
			in.ResourceQuotas = append(in.ResourceQuotas, q)
		case "Namespace":
			var n corev1.Namespace
			must(t, yaml.UnmarshalStrict(text, &n))
			in.Namespaces = append(in.Namespaces, n)
		default:
			plural, _ := meta.UnsafeGuessKindToResource(gvk)
			o := foreign.Parse(foreign.Kind(plural.GroupResource().String()), &u)
			must(t, o.Err)
			in.Objects[o.Kind] = append(in.Objects[o.Kind], o)
		}
	}
	l := New(in)
	buildable(t, l)
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// buildable checks that the result is a valid tree.
func buildable(t interface{ Fatalf(string, ...any) }, l *Ledger) {
	plain := make([]quota.Tenant, len(l.Tenants))
	for i := range l.Tenants {
		plain[i] = l.Tenants[i].Tenant
	}
	if _, err := quota.NewTree(plain); err != nil {
		t.Fatalf("the tree cannot be built: %v", err)
	}
}

func (l *Ledger) text() string {
	var b strings.Builder
	for _, t := range l.Tenants {
		fmt.Fprintf(&b, "%s", t.Name)
		if t.Parent != "" {
			fmt.Fprintf(&b, " < %s", t.Parent)
		}
		fmt.Fprintf(&b, ": %s of %s, borrow %s, lend %s\n", Equivalents(t.Guarantee), Equivalents(t.Limit), Equivalents(t.Borrow), Equivalents(t.Lend))
	}
	return b.String()
}

func TestTenants(t *testing.T) {
	for name, c := range map[string]struct{ objects, want string }{
		"GPUQuota": {`
kind: GPUQuota
metadata: {name: research}
spec: {amounts: [{model: any, limit: 12}]}
---
kind: GPUQuota
metadata: {name: team-a}
spec:
  parent: research
  tenants: {namespaces: [a]}
  amounts:
  - {model: any, guaranteed: 4, limit: 8, borrowLimit: 2, lendLimit: "0.5"}
  - {model: NVIDIA-H100-80GB-HBM3, guaranteed: 2}`, `
research: 0 of 12, borrow ∞, lend ∞
team-a < research: 4 of 8, borrow 2, lend 0.5
team-a/H100-80GB < team-a: 2 of ∞, borrow ∞, lend ∞`},
		"Kueue, a cohort without an object, MIG beside GPUs": {`
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: team-a}
spec:
  cohort: all
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu, nvidia.com/mig-1g.10gb]
    flavors:
    - name: f
      resources:
      - {name: cpu, nominalQuota: 9}
      - {name: nvidia.com/gpu, nominalQuota: 4, borrowingLimit: 2, lendingLimit: 1}
      - {name: nvidia.com/mig-1g.10gb, nominalQuota: 7, borrowingLimit: 0, lendingLimit: 0}`, `
kueue/cohort/all: 0 of ∞, borrow ∞, lend ∞
kueue/team-a < kueue/cohort/all: 5 of ∞, borrow 2, lend 1`},
		"Kueue v1beta2, cohorts in a tree, two flavors": {`
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata: {name: team}
spec: {parentName: org, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 3}]}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: q}
spec:
  cohortName: team
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors:
    - {name: spot, resources: [{name: nvidia.com/gpu, nominalQuota: 1}]}
    - {name: reserved, resources: [{name: nvidia.com/gpu, nominalQuota: 2}]}`, `
kueue/cohort/org: 0 of ∞, borrow ∞, lend ∞
kueue/cohort/team < kueue/cohort/org: 3 of ∞, borrow ∞, lend ∞
kueue/q < kueue/cohort/team: 3 of ∞, borrow ∞, lend ∞`},
		"Volcano, queues under queues": {`
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: dept}
spec: {deserved: {nvidia.com/gpu: 8}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
spec: {parent: dept, reclaimable: false, deserved: {nvidia.com/gpu: 6}, capability: {nvidia.com/gpu: 7, cpu: 9}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: default}
spec: {weight: 1}`, `
volcano/dept < volcano/root: 2 of ∞, borrow ∞, lend ∞
volcano/root: 0 of ∞, borrow ∞, lend ∞
volcano/team < volcano/dept: 6 of 7, borrow ∞, lend 0`},
		"KAI": {`
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: dept}
spec: {resources: {gpu: {quota: 4, limit: -1}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {parentQueue: dept, resources: {gpu: {quota: 1.5, limit: 2, overQuotaWeight: 1}}}`, `
kai/dept: 2.57 of ∞, borrow ∞, lend ∞
kai/team < kai/dept: 1.5 of 2, borrow ∞, lend ∞`},
		"ResourceQuota": {`
kind: ResourceQuota
metadata: {namespace: a, name: gpus}
spec: {hard: {requests.nvidia.com/gpu: 4, requests.cpu: 9, nvidia.com/mig-1g.10gb: 9}}
---
kind: ResourceQuota
metadata: {namespace: a, name: some-pods}
spec: {scopes: [BestEffort], hard: {pods: 4}}`, `
resourcequota/a/gpus: 4 of 4, borrow 0, lend 0`},
	} {
		t.Run(name, func(t *testing.T) {
			l := read(t, strings.TrimSpace(c.objects))
			if got, want := strings.TrimSpace(l.text()), strings.TrimSpace(c.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if len(l.Problems) > 0 {
				t.Errorf("problems %v", l.Problems)
			}
		})
	}
}

// TestProblems: each is reported for its quota, with field and remedy, and everything else holds.
func TestProblems(t *testing.T) {
	const sound = `kind: GPUQuota
metadata: {name: sound}
spec: {tenants: {namespaces: [s]}, amounts: [{model: any, guaranteed: 1}]}
---
`
	for name, c := range map[string]struct{ objects, of, want, tenants string }{
		"an unknown parent": {`kind: GPUQuota
metadata: {name: a}
spec: {parent: missing, amounts: [{model: any, guaranteed: 2}]}`,
			"GPUQuota a", `spec.parent: there is no "missing": the quota has no parent`, "a: 2 of ∞"},
		"a circle": {`kind: GPUQuota
metadata: {name: a}
spec: {parent: b, amounts: [{model: any, guaranteed: 2}]}
---
kind: GPUQuota
metadata: {name: b}
spec: {parent: a, amounts: [{model: any, guaranteed: 3}]}
---
kind: GPUQuota
metadata: {name: below}
spec: {parent: b, amounts: [{model: any, guaranteed: 1}]}`,
			"GPUQuota a", `spec.parent: a circle, a → b → a`, "a: 2 of ∞ b: 3 of ∞ below < b: 1 of ∞"},
		"two over one namespace": {`kind: GPUQuota
metadata: {name: old}
spec: {tenants: {namespaces: [x]}, amounts: [{model: any}]}
---
kind: GPUQuota
metadata: {name: new}
spec: {tenants: {namespaces: [x]}, amounts: [{model: any}]}`,
			"GPUQuota new", `spec.tenants: namespace x counts towards GPUQuota old already`, "new: 0 of ∞ old: 0 of ∞"},
		"a limit below what is guaranteed under it": {`kind: GPUQuota
metadata: {name: a}
spec: {amounts: [{model: any, limit: 2}]}
---
kind: GPUQuota
metadata: {name: b}
spec: {parent: a, amounts: [{model: any, guaranteed: 3}]}`,
			"GPUQuota a", `limit: 2 is below what is guaranteed to it and under it, 3`, "a: 0 of 3 b < a: 3 of ∞"},
		"no such product": {`kind: GPUQuota
metadata: {name: a}
spec: {amounts: [{model: H999, guaranteed: 3}]}`,
			"GPUQuota a", `spec.amounts[0].model: "H999" is no product we know`, "a: 0 of ∞"},
		"below zero": {`kind: GPUQuota
metadata: {name: a}
spec: {amounts: [{model: any, guaranteed: -3}]}`,
			"GPUQuota a", `spec.amounts[0].guaranteed: -3 is below zero`, "a: 0 of ∞"},
		"an invalid selector": {`kind: GPUQuota
metadata: {name: a}
spec: {tenants: {namespaces: [x], podSelector: {matchLabels: {"not a key!": x}}}, amounts: [{model: any}]}`,
			"GPUQuota a", `spec.tenants.podSelector: `, "a: 0 of ∞"},
	} {
		t.Run(name, func(t *testing.T) {
			l := read(t, sound+c.objects)
			if err := l.Problems[c.of]; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("of %s: %v, want %q", c.of, err, c.want)
			}
			if l.Problems["GPUQuota sound"] != nil || l.Tenant(Claim{Namespace: "s"}) != "sound" {
				t.Errorf("the sound one: %v", l.Problems["GPUQuota sound"])
			}
			got := strings.NewReplacer(", borrow ∞, lend ∞", "", "\n", " ").Replace(l.text())
			if got := strings.TrimSpace(strings.Replace(got, "sound: 1 of ∞", "", 1)); strings.Join(strings.Fields(got), " ") != c.tenants {
				t.Errorf("tenants %q, want %q", got, c.tenants)
			}
		})
	}
}

// TestUnreadableQuotaLiftsNoLimit: a quota of which a part cannot be read is no reason to add nodes for its pods
// without a limit.
func TestUnreadableQuotaLiftsNoLimit(t *testing.T) {
	queue := foreign.Parse(foreign.VolcanoQueue, &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "q"}, "spec": map[string]any{"capability": "x"}}})
	undecodable := v1alpha1.GPUQuota{Undecodable: `spec.amounts: "much"`}
	undecodable.Name, undecodable.Spec.Tenants.Namespaces = "a", []string{"x"}
	l := New(Input{Quotas: []v1alpha1.GPUQuota{undecodable}, Objects: foreign.Objects{foreign.VolcanoQueue: {queue}}})
	buildable(t, l)
	for of, c := range map[string]Claim{"a": {Namespace: "x"}, "volcano/q": {Namespace: "y", Labels: map[string]string{"scheduling.volcano.sh/queue-name": "q"}}} {
		i := slices.IndexFunc(l.Tenants, func(t plan.Tenant) bool { return t.Name == of })
		if l.Tenant(c) != of || i < 0 || !l.Tenants[i].Limit.Zero() {
			t.Errorf("%s: tenant %q of\n%s", of, l.Tenant(c), l.text())
		}
	}
	for of, want := range map[string]string{"GPUQuota a": "nothing more is added for its pods", string(foreign.VolcanoQueue) + " q": "spec.capability"} {
		if err := l.Problems[of]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", of, err)
		}
	}

	l = read(t, `kind: GPUQuota
metadata: {name: a}
spec: {tenants: {namespaces: [x], podSelector: {matchLabels: {"not a key!": x}}}, amounts: [{model: any, limit: 1}]}`)
	if got := l.Tenant(Claim{Namespace: "x"}); got != "a" {
		t.Errorf("with an invalid podSelector, a pod of the namespace counts towards %q", got)
	}
}

func TestTenantOfPods(t *testing.T) {
	l := read(t, `kind: Namespace
metadata: {name: b1, labels: {team: b}}
---
kind: GPUQuota
metadata: {name: a}
spec: {tenants: {namespaces: [a1, a2]}, amounts: [{model: any}, {model: H100-80GB}]}
---
kind: GPUQuota
metadata: {name: a-train}
spec: {tenants: {namespaces: [a1], podSelector: {matchLabels: {kind: train}}}, amounts: [{model: any}]}
---
kind: GPUQuota
metadata: {name: b}
spec: {tenants: {namespaceSelector: {matchLabels: {team: b}}}, amounts: [{model: any}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec: {resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 1}]}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: renames}
spec: {cohortName: all, resourceGroups: [{coveredResources: [accelerator-memory], flavors: [{name: f, resources: [{name: accelerator-memory, nominalQuota: 640Gi}]}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {namespace: c, name: renamed}
spec: {clusterQueue: renames}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {namespace: c, name: lq}
spec: {clusterQueue: cq}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: vq}
spec: {capability: {nvidia.com/gpu: 2}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {namespace: d, name: pg}
spec: {minMember: 1, queue: vq}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: kq}
spec: {resources: {gpu: {quota: 1}}}
---
kind: ResourceQuota
metadata: {namespace: e, name: gpus}
spec: {hard: {requests.nvidia.com/gpu: 4}}`)
	one := demand.Demand{GPUs: 1, Vendor: "nvidia"}
	instance, err := demand.FromResources(map[string]int64{"nvidia.com/mig-1g.10gb": 1})
	must(t, err)
	for want, claims := range map[string][]Claim{
		"a":                    {{Namespace: "a1"}, {Namespace: "a2", Model: "L40S"}},
		"a/H100-80GB":          {{Namespace: "a2", Model: "H100-80GB"}},
		"a-train":              {{Namespace: "a1", Labels: map[string]string{"kind": "train"}, Model: "H100-80GB"}},
		"b":                    {{Namespace: "b1"}},
		"kueue/cq":             {{Namespace: "c", Labels: map[string]string{"kueue.x-k8s.io/queue-name": "lq"}}},
		"volcano/vq":           {{Namespace: "d", PodGroup: "pg"}, {Namespace: "d", Annotations: map[string]string{"scheduling.volcano.sh/queue-name": "vq"}}},
		"kai/kq":               {{Namespace: "d", Labels: map[string]string{"kai.scheduler/queue": "kq"}}},
		"resourcequota/e/gpus": {{Namespace: "e", Demand: one}},
		"": {{Namespace: "e", Demand: instance}, {Namespace: "c"}, {Namespace: "c", Labels: map[string]string{"kueue.x-k8s.io/queue-name": "gone"}},
			{Namespace: "c", Labels: map[string]string{"kueue.x-k8s.io/queue-name": "renamed"}}, // what counts GPUs by another name bounds none of ours
			{Namespace: "d", SchedulerName: "volcano"}, {Namespace: "e", Demand: demand.Demand{GPUs: 1, Vendor: "amd"}}},
	} {
		for _, c := range claims {
			if got := l.Tenant(c); got != want {
				t.Errorf("%+v counts towards %q, want %q", c, got, want)
			}
		}
	}
}

func TestStatuses(t *testing.T) {
	l := read(t, `kind: GPUQuota
metadata: {name: org}
spec: {amounts: [{model: any, guaranteed: 1}]}
---
kind: GPUQuota
metadata: {name: a}
spec: {parent: org, tenants: {namespaces: [a]}, amounts: [{model: any, guaranteed: 2}]}
---
kind: GPUQuota
metadata: {name: b}
spec: {parent: org, tenants: {namespaces: [b]}, amounts: [{model: any, guaranteed: 2}, {model: H100-80GB}]}`)
	half, err := demand.FromResources(map[string]int64{"nvidia.com/mig-3g.40gb": 1})
	must(t, err)
	gpus := func(n int) demand.Demand { return demand.Demand{GPUs: n, Vendor: "nvidia"} }
	s := &plan.Snapshot{Now: start, Tenants: l.Tenants, Pods: []plan.Pod{
		{Name: "1", Node: "n", Tenant: "a", Demand: half},
		{Name: "2", Tenant: "a", Demand: gpus(1)},
		{Name: "3", Node: "n", Tenant: "b", Demand: gpus(3)},
		{Name: "4", Node: "n", Tenant: "b/H100-80GB", Demand: gpus(1)},
		{Name: "5", Node: "n", Tenant: "b", Demand: gpus(9), Leaving: true},
	}}
	quotas := []v1alpha1.GPUQuota{{ObjectMeta: metav1.ObjectMeta{Name: "org"}}, {ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
	got := Statuses(quotas, s, map[string]error{"GPUQuota a": fmt.Errorf("spec.x: no")})
	for name, want := range map[string]string{
		"org": "5 4.5 0 0 1", // guaranteed, used, borrowed, lent, waiting
		"a":   "2 0.5 0 1 1",
		"b":   "2 4 2 0 0",
	} {
		u := got[name]
		if text := strings.Join([]string{u.Guaranteed, u.Used, u.Borrowed, u.Lent, u.Pending}, " "); text != want {
			t.Errorf("%s: %s, want %s", name, text, want)
		}
	}
	if c := got["a"].Conditions[0]; c.Type != "Valid" || c.Status != metav1.ConditionFalse || c.Message != "spec.x: no" {
		t.Errorf("condition %+v", c)
	}
	if c := got["b"].Conditions[0]; c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
}

// TestTreeIsAlwaysValid: quotas that contradict one another in any way still give a tree, and the
// same one in any order.
func TestTreeIsAlwaysValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
		amount := rapid.SampledFrom([]string{"", "0", "1", "2.5", "-1", "1e30"})
		var in Input
		for i := range rapid.IntRange(0, 6).Draw(t, "quotas") {
			doc := fmt.Sprintf("metadata: {name: %s}\nspec:\n  parent: %s\n  tenants: {namespaces: [%s]}\n  amounts:\n  - {model: any, guaranteed: %s, limit: %s, borrowLimit: %s, lendLimit: %s}\n  - {model: %s, guaranteed: %s, limit: %s}\n",
				string(rune('a'+i)), rapid.SampledFrom([]string{"", "a", "b", "c", "d", "e", "zz"}).Draw(t, "parent"), name.Draw(t, "namespace"),
				amount.Draw(t, "g"), amount.Draw(t, "l"), amount.Draw(t, "b"), amount.Draw(t, "e"),
				rapid.SampledFrom([]string{"H100-80GB", "A30", "nothing"}).Draw(t, "model"), amount.Draw(t, "mg"), amount.Draw(t, "ml"))
			var q v1alpha1.GPUQuota
			if err := yaml.Unmarshal([]byte(doc), &q); err != nil {
				t.Fatalf("%v in %s", err, doc)
			}
			in.Quotas = append(in.Quotas, q)
		}
		l := New(in)
		buildable(t, l)
		slices.Reverse(in.Quotas)
		if again := New(in); again.text() != l.text() || fmt.Sprint(again.Problems) != fmt.Sprint(l.Problems) {
			t.Fatalf("in another order\n%s%v\ninstead of\n%s%v", again.text(), again.Problems, l.text(), l.Problems)
		}
	})
}

// TestRefuse: of the pods still to be created the API server creates those within every
// ResourceQuota of their namespace; of a gang all or none.
func TestRefuse(t *testing.T) {
	const device = `containers: [{name: c, resources: {requests: {cpu: "4", memory: 8Gi, nvidia.com/gpu: "1"}, limits: {nvidia.com/gpu: "1"}}}]`
	const quota = "kind: ResourceQuota\nmetadata: {namespace: ml, name: q}\n"
	type pod struct {
		spec, gang string
		least      int
	}
	one, gang := pod{spec: device}, pod{device, "ml/g", 2}
	for name, c := range map[string]struct {
		quotas string
		pods   []pod
		want   string // the resource there is no more of, "-" for a pod that is made
	}{
		"capacity for two of three": {quota + `spec: {hard: {requests.nvidia.com/gpu: 4}}
status: {hard: {requests.nvidia.com/gpu: 4}, used: {requests.nvidia.com/gpu: 2}}`, []pod{one, one, one}, "- - requests.nvidia.com/gpu"},
		"another resource is what lacks": {quota + `spec: {hard: {requests.nvidia.com/gpu: 4, cpu: 6}}
status: {hard: {requests.nvidia.com/gpu: 4, cpu: 6}, used: {requests.nvidia.com/gpu: 0, cpu: 0}}`, []pod{one, one}, "- cpu"},
		"a number of pods": {quota + `spec: {hard: {pods: 1}}
status: {hard: {pods: 1}, used: {pods: 0}}`, []pod{one, one}, "- pods"},
		"nothing has been counted yet": {quota + `spec: {hard: {requests.nvidia.com/gpu: 4}}`, []pod{one}, "requests.nvidia.com/gpu"},
		"it bounds what no pod requests": {quota + `spec: {hard: {requests.amd.com/gpu: 0, count/secrets: 1}}
status: {hard: {requests.amd.com/gpu: 0, count/secrets: 1}, used: {requests.amd.com/gpu: 0, count/secrets: 3}}`, []pod{one}, "-"},
		"a gang with too few pods within the quota takes no capacity": {quota + `spec: {hard: {requests.nvidia.com/gpu: 1}}
status: {hard: {requests.nvidia.com/gpu: 1}, used: {requests.nvidia.com/gpu: 0}}`, []pod{gang, gang, one}, "requests.nvidia.com/gpu requests.nvidia.com/gpu -"},
		"a gang of which enough would be made": {quota + `spec: {hard: {requests.nvidia.com/gpu: 2}}
status: {hard: {requests.nvidia.com/gpu: 2}, used: {requests.nvidia.com/gpu: 0}}`, []pod{gang, gang, gang}, "- - requests.nvidia.com/gpu"},
		"of two quotas the one that has less": {quota + `spec: {hard: {requests.nvidia.com/gpu: 9}}
status: {hard: {requests.nvidia.com/gpu: 9}, used: {requests.nvidia.com/gpu: 0}}
---
kind: ResourceQuota
metadata: {namespace: ml, name: small}
spec: {hard: {requests.memory: 8Gi}}
status: {hard: {requests.memory: 8Gi}, used: {requests.memory: 0}}`, []pod{one, one}, "- requests.memory"},
		"one of another namespace": {`kind: ResourceQuota
metadata: {namespace: other, name: q}
spec: {hard: {pods: 0}}
status: {hard: {pods: 0}, used: {pods: 0}}`, []pod{one}, "-"},
		"a required request is missing": {quota + `spec: {hard: {limits.cpu: 99}}
status: {hard: {limits.cpu: 99}, used: {limits.cpu: 0}}`, []pod{one}, "limits.cpu"},
		"scopes: a class": {quota + `spec: {hard: {pods: 0}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [low]}]}}
status: {hard: {pods: 0}, used: {pods: 0}}`, []pod{one, {spec: "priorityClassName: low\n" + device}}, "- pods"},
		"scopes: best effort is of CPU and memory": {quota + `spec: {hard: {pods: 0}, scopes: [BestEffort]}
status: {hard: {pods: 0}, used: {pods: 0}}`, []pod{one, {spec: `containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]`}}, "- pods"},
		"scopes: a deadline": {quota + `spec: {hard: {pods: 0}, scopes: [Terminating, NotBestEffort]}
status: {hard: {pods: 0}, used: {pods: 0}}`, []pod{one, {spec: "activeDeadlineSeconds: 60\n" + device}}, "- pods"},
	} {
		t.Run(name, func(t *testing.T) {
			l := read(t, c.quotas)
			tenants := len(l.Tenants)
			var pods []Made
			for _, p := range c.pods {
				var spec corev1.PodSpec
				must(t, yaml.UnmarshalStrict([]byte(p.spec), &spec))
				pods = append(pods, Made{Namespace: "ml", Spec: &spec, Gang: p.gang, Least: p.least})
			}
			var got []string
			for _, tenant := range l.Refuse(pods) {
				_, resource, _ := strings.Cut(tenant, "/no-more/")
				if tenant == "" {
					resource = "-"
				} else if !l.names[tenant] {
					t.Errorf("%s is no tenant", tenant)
				}
				got = append(got, resource)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			buildable(t, l)
			for _, added := range l.Tenants[tenants:] {
				if !added.Limit.Zero() || !added.Guarantee.Zero() {
					t.Errorf("%+v has free capacity", added)
				}
			}
		})
	}
}

// TestSharesOfGPUs: a ResourceQuota of eight shares is two GPUs where a GPU has four, and pods with
// shares count towards it; parts of GPUs do not.
func TestSharesOfGPUs(t *testing.T) {
	q := corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.nvidia.com/gpu.shared": resource.MustParse("8")}},
	}
	l := New(Input{ResourceQuotas: []corev1.ResourceQuota{q}, Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}, Shares: 4})
	if len(l.Tenants) != 1 || l.Tenants[0].Guarantee != (quota.Amount{Compute: 14, Memory: 16}) {
		t.Fatalf("%+v", l.Tenants)
	}
	share := Claim{Namespace: "a", Demand: demand.Demand{Vendor: "nvidia", Fraction: &demand.Fraction{CoreMilli: 250, MemoryMilli: 250, GPUs: 1}}, Shares: true}
	if got := l.Tenant(share); got != "resourcequota/a/q" {
		t.Errorf("a share counts towards %q", got)
	}
	if share.Shares = false; l.Tenant(share) != "" {
		t.Errorf("a part of a GPU counts towards %q", l.Tenant(share))
	}
	if none := New(Input{ResourceQuotas: []corev1.ResourceQuota{q}}); len(none.Tenants) != 0 {
		t.Errorf("without shared GPUs: %+v", none.Tenants)
	}
}
