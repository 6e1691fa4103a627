package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/plan"
)

// pendingIn returns n pods of a namespace that request a GPU, the older ones first.
func pendingIn(namespace string, n int, change func(i int, p *corev1.Pod)) []*corev1.Pod {
	out := make([]*corev1.Pod, n)
	for i := range out {
		p := pod(fmt.Sprintf("p%05d", i), "", corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")})
		p.Namespace = namespace
		if change != nil {
			change(i, p)
		}
		out[i] = p
	}
	return out
}

// apart gives a pod an anti-affinity to pods with this label and value.
func apart(p *corev1.Pod, value string, terms int) {
	p.Labels = map[string]string{"app": value}
	a := &corev1.PodAntiAffinity{}
	for range terms {
		a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		})
	}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: a}
}

// limited is what an Observer makes of these pods.
func limited(t *testing.T, pdbs []policyv1.PodDisruptionBudget, pods ...[]*corev1.Pod) Observation {
	t.Helper()
	w := newWorld(t, pool("p"), node("n", corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}))
	for i := range pdbs {
		if err := w.client.Create(t.Context(), &pdbs[i]); err != nil {
			t.Fatal(err)
		}
	}
	w.o.o.Pods = func(context.Context) ([]*corev1.Pod, error) { return slices.Concat(pods...), nil }
	return w.at(0)
}

// TestLimitsOfANamespace: a namespace beyond a limit loses its own pods, with a reason and counted; a
// namespace that is not has all of them.
func TestLimitsOfANamespace(t *testing.T) {
	owned := func(i int, p *corev1.Pod) {
		apart(p, "a", 1)
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j", Controller: new(true)}}
	}
	var pdbs []policyv1.PodDisruptionBudget
	for i := range maxBudgets + 1 {
		pdbs = append(pdbs, policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: fmt.Sprint("b", i)}})
	}
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		pdbs []policyv1.PodDisruptionBudget
		want Exceeded
		says string
	}{
		"pending pods": {pods: pendingIn("tenant", maxPending+3, nil),
			want: Exceeded{"tenant", LimitPending, 3}, says: "namespace tenant has 10003 pending pods that request GPUs: the oldest 10000 are planned for"},
		"rules of a pod": {pods: pendingIn("tenant", 1, func(_ int, p *corev1.Pod) { apart(p, "a", maxRules+1) }),
			want: Exceeded{"tenant", LimitRules, 1}, says: "the pod has 65 topology rules"},
		"groups": {pods: pendingIn("tenant", maxGroups+1, func(i int, p *corev1.Pod) { apart(p, fmt.Sprint(i), 1) }),
			want: Exceeded{"tenant", LimitRules, maxGroups + 1}, says: "name more than 500 different groups of pods"},
		"budgets": {pods: pendingIn("tenant", 2, owned), pdbs: pdbs, want: Exceeded{"tenant", LimitBudgets, 2}},
	} {
		got := limited(t, c.pdbs, c.pods, pendingIn("chat", 2, owned))
		if !slices.Equal(got.Exceeded, []Exceeded{c.want}) {
			t.Errorf("%s: exceeded %+v, want %+v", name, got.Exceeded, c.want)
		}
		left, evictable := 0, 0
		for _, p := range got.Pods {
			switch {
			case p.Namespace == "chat" && (p.Unreadable != "" || p.Demand.GPUs != 1 || len(p.Apart) != 1 || !p.Evictable):
				t.Errorf("%s: a pod of chat: %+v", name, p)
			case p.Namespace == "tenant" && p.Unreadable != "":
				left++
				if !strings.Contains(p.Unreadable, c.says) || !p.Demand.Zero() {
					t.Errorf("%s: %s, %v", name, p.Unreadable, p.Demand)
				}
			case p.Namespace == "tenant" && p.Evictable:
				evictable++
			}
		}
		if c.says != "" && left != c.want.Pods || evictable != 0 {
			t.Errorf("%s: %d pods are left out, %d can be evicted", name, left, evictable)
		}
	}
}

// TestLimitsOfBoundPods: what runs is never left out, whatever its rules are: its GPU is in use.
func TestLimitsOfBoundPods(t *testing.T) {
	got := limited(t, nil, pendingIn("tenant", 1, func(_ int, p *corev1.Pod) {
		apart(p, "a", maxRules+1)
		p.Spec.NodeName = "n"
	}))
	if len(got.Pods) != 1 || got.Pods[0].Unreadable != "" || got.Pods[0].Demand.GPUs != 1 {
		t.Errorf("%+v", got.Pods)
	}
}

// TestWorkIsLinear: the comparisons of labels with selectors grow as what one namespace sends, not as
// its square, in its own namespace and in those that its rules name.
func TestWorkIsLinear(t *testing.T) {
	work := func(pods int, across bool) int {
		r := newRules(namespacesNamed(50))
		all := pendingIn("tenant", pods, func(i int, p *corev1.Pod) {
			apart(p, fmt.Sprint(i), 3)
			for n := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
				if across {
					p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[n].NamespaceSelector = &metav1.LabelSelector{}
				}
			}
		})
		for _, p := range all {
			var out plan.Pod
			r.of(p.Namespace, p.Labels, &p.Spec, &out)
		}
		for _, p := range all {
			r.in(p.Namespace, p.Labels)
		}
		return r.work
	}
	for _, across := range []bool{false, true} {
		one, four := work(2*maxGroups, across), work(8*maxGroups, across)
		if one == 0 || four > 4*one+100 || four > 8*maxGroups*maxGroups+100 {
			t.Errorf("in other namespaces %v: %d comparisons for %d pods, %d for four times as many", across, one, 2*maxGroups, four)
		}
	}
}

func namespacesNamed(n int) (out []corev1.Namespace) {
	for i := range n {
		out = append(out, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("ns", i)}})
	}
	return out
}

// TestHostileSelectors: selectors that are too long or nested too deep are not read, and a message
// about one is short.
func TestHostileSelectors(t *testing.T) {
	list := func(texts ...string) (out []resourcev1.DeviceSelector) {
		for _, text := range texts {
			out = append(out, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: text}})
		}
		return out
	}
	nested := func(depth int) string {
		return strings.Repeat("(", depth) + "device.driver == 'gpu.nvidia.com'" + strings.Repeat(")", depth)
	}
	if s := readSelectors(list(nested(maxNested))); s.unread != nil || s.driver != "gpu.nvidia.com" {
		t.Errorf("nested %d times: %+v", maxNested, s)
	}
	for name, selectors := range map[string][]resourcev1.DeviceSelector{
		"nested": list(nested(maxNested + 1)), "long": list(strings.Repeat(" ", maxSelectors) + "true"), "many": list(slices.Repeat([]string{nested(1000)}, 100)...),
	} {
		if s := readSelectors(selectors); s.unread == nil || s.driver != "" || len(s.unread.Error()) > 1000 {
			t.Errorf("%s: %v, driver %q", name, s.unread, s.driver)
		}
	}
}
