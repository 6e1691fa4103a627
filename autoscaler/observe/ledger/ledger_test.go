package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/gangs"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// TestLedger runs testdata/ledger. Later objects are younger.
//
//	ledger    the tenants and problems of these quotas, and towards which tenant each pod counts, by its labels,
//	          annotations and scheduler, the model of its GPU (annotation test/model) and its PodGroup (test/group)
//	refuse    of these pods, which are still to be created, those that a ResourceQuota refuses, and for which
//	          resource: test/replicas equal ones, of the gang test/gang, of which test/min are of use
func TestLedger(t *testing.T) {
	datadriven.Walk(t, "testdata/ledger", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			l, pods := read(t, d.Input)
			if d.Cmd == "refuse" {
				return refused(t, l, pods)
			}
			text := l.text()
			for _, of := range slices.Sorted(maps.Keys(l.Problems)) {
				text += fmt.Sprintf("problem of %s: %v\n", of, l.Problems[of])
			}
			for _, p := range pods {
				d, err := demand.FromResources(kube.Extended(limitsOf(&p)))
				must(t, err)
				pod := gangs.Pod{Pod: &p, Plan: &plan.Pod{Demand: d}, PodGroup: p.Annotations["test/group"]}
				tenant := l.Tenant(&pod, func() string { return p.Annotations["test/model"] })
				text += fmt.Sprintf("pod %s/%s counts towards %s\n", p.Namespace, p.Name, cmp.Or(tenant, "none"))
			}
			return text
		})
	})
}

func limitsOf(p *corev1.Pod) corev1.ResourceList {
	if len(p.Spec.Containers) == 0 {
		return nil
	}
	return p.Spec.Containers[0].Resources.Limits
}

// refused prints for each pod the resource for which it is refused. A tenant that is added for a refusal has no
// capacity.
func refused(t *testing.T, l *Ledger, pods []corev1.Pod) string {
	t.Helper()
	tenants, names := len(l.Tenants), []string(nil)
	var all []gangs.Pod
	for _, p := range pods {
		least, _ := strconv.Atoi(p.Annotations["test/min"])
		many, _ := strconv.Atoi(cmp.Or(p.Annotations["test/replicas"], "1"))
		for range many {
			all = append(all, gangs.Pod{Pod: &p, Plan: &plan.Pod{Gang: p.Annotations["test/gang"], GangMin: least}})
			names = append(names, p.Name)
		}
	}
	text := ""
	for i, tenant := range l.Refuse(all, nil) {
		_, resource, _ := strings.Cut(tenant, "/no-more/")
		if tenant != "" && !l.names[tenant] {
			t.Errorf("%s is no tenant", tenant)
		}
		text += fmt.Sprintf("%s: %s\n", names[i], cmp.Or(resource, "is created"))
	}
	buildable(t, l)
	for _, added := range l.Tenants[tenants:] {
		if !added.Limit.Zero() || !added.Guarantee.Zero() {
			t.Errorf("%+v has free capacity", added)
		}
	}
	return text
}

// read builds a ledger from YAML, and returns the pods among it.
func read(t *testing.T, text string) (*Ledger, []corev1.Pod) {
	t.Helper()
	in, pods := Input{Objects: foreign.Objects{}}, []corev1.Pod(nil)
	for i, doc := range strings.Split(text, "\n---\n") {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		u.SetCreationTimestamp(metav1.NewTime(start.Add(time.Duration(i) * time.Minute)))
		text, err := yaml.Marshal(u.Object)
		must(t, err)
		switch gvk := u.GroupVersionKind(); gvk.Kind {
		case "GPUQuota":
			in.Quotas = append(in.Quotas, one[v1alpha1.GPUQuota](t, text))
		case "ResourceQuota":
			in.ResourceQuotas = append(in.ResourceQuotas, one[corev1.ResourceQuota](t, text))
		case "Namespace":
			in.Namespaces = append(in.Namespaces, one[corev1.Namespace](t, text))
		case "Pod":
			pods = append(pods, one[corev1.Pod](t, text))
		default:
			plural, _ := meta.UnsafeGuessKindToResource(gvk)
			o := foreign.Parse(foreign.Kind(plural.GroupResource().String()), &u)
			in.Objects.Add(o)
		}
	}
	l := New(in)
	buildable(t, l)
	return l, pods
}

func one[T any](t *testing.T, text []byte) (v T) {
	t.Helper()
	must(t, yaml.UnmarshalStrict(text, &v))
	return v
}

func must(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
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
		fmt.Fprintf(&b, ": %s of %s, borrow %s, lend %s\n", text(equivalents(t.Guarantee)), text(equivalents(t.Limit)), text(equivalents(t.Borrow)), text(equivalents(t.Lend)))
	}
	return b.String()
}

func TestStatuses(t *testing.T) {
	l, _ := read(t, `kind: GPUQuota
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

// TestTreeIsAlwaysValid: quotas that contradict one another in any way still form a valid tree, and the same one in any
// order.
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

// TestSharesOfGPUs: a ResourceQuota of eight shares is two GPUs where a GPU has four, and pods with
// shares count towards it; parts of GPUs do not.
func TestSharesOfGPUs(t *testing.T) {
	q := corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.nvidia.com/gpu.shared": resource.MustParse("8")}},
	}
	l := New(Input{ResourceQuotas: []corev1.ResourceQuota{q}, Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}, Shares: 4})
	if len(l.Tenants) != 1 || l.Tenants[0].Guarantee != (quota.Amount{Compute: 16, Memory: 16}) {
		t.Fatalf("%+v", l.Tenants)
	}
	share := &gangs.Pod{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}, Plan: &plan.Pod{
		Demand: demand.Demand{Vendor: "nvidia", Fraction: &demand.Fraction{CoreMilli: 250, MemoryMilli: 250, GPUs: 1}}, Others: []plan.Resource{{Name: sharedResource, Amount: 1}},
	}}
	anyModel := func() string { return "" }
	if got := l.Tenant(share, anyModel); got != "resourcequota/a/q" {
		t.Errorf("a share counts towards %q", got)
	}
	if share.Plan.Others = nil; l.Tenant(share, anyModel) != "" {
		t.Errorf("a part of a GPU counts towards %q", l.Tenant(share, anyModel))
	}
	if none := New(Input{ResourceQuotas: []corev1.ResourceQuota{q}}); len(none.Tenants) != 0 {
		t.Errorf("without shared GPUs: %+v", none.Tenants)
	}
}
