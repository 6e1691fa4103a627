package observe

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
)

// hostileSpace is before "chat" in every order.
const hostileSpace = "a-tenant"

// wishes are annotations and labels of pods that change what the autoscaler does for them, or about them.
var wishes = []string{
	"gpuscale.io/safe-to-evict", "gpuscale.io/evict-from", "gpuscale.io/gang", "gpuscale.io/pool", "gpuscale.io/drain", "gpuscale.io/repartition",
	"cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt", "scheduling.k8s.io/group-name", "scheduling.x-k8s.io/pod-group",
	"pod-group.scheduling.sigs.k8s.io/name", "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/podset", "kai.scheduler/queue", "gpu-fraction", "gpu-memory",
	"jobset.sigs.k8s.io/jobset-name", "leaderworkerset.sigs.k8s.io/name", "pod-template-hash", "app",
}

// hostile has what a tenant without quota left may create in its namespace: every kind that the Observer reads, with
// wishes in every place.
type hostile struct {
	name, key, value, amount string
	count                    uint8
}

// quantity is a quantity that the API server accepts.
func (h hostile) quantity() resource.Quantity {
	q, err := resource.ParseQuantity(h.amount)
	if err != nil || q.Sign() < 0 || len(h.amount) > 30 {
		return resource.MustParse("1")
	}
	return q
}

func (h hostile) meta(name string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: hostileSpace, Name: name, UID: types.UID(name), Labels: map[string]string{h.key: h.value, "app": "a"}, Annotations: map[string]string{h.key: h.value}}
	for i, wish := range wishes {
		if i%8 == int(h.count)%8 {
			out.Labels[wish], out.Annotations[wish] = h.value, h.value
		}
	}
	return out
}

func (h hostile) spec() corev1.PodSpec {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{h.key: h.value}}
	return corev1.PodSpec{
		SchedulerName: h.value, PriorityClassName: h.name, NodeSelector: map[string]string{h.key: h.value},
		Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceName(h.key): h.quantity(), "nvidia.com/gpu": resource.MustParse("1")}}}},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: h.key, LabelSelector: selector}}}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{MaxSkew: int32(h.count), TopologyKey: h.key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector}},
		ResourceClaims:            []corev1.PodResourceClaim{{Name: h.name, ResourceClaimName: &h.name}},
	}
}

func (h hostile) objects() (all []client.Object) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{h.key: h.value}}
	for i := range int(h.count)%5 + 1 {
		p := &corev1.Pod{ObjectMeta: h.meta(fmt.Sprintf("%s-%d", "t", i)), Spec: h.spec()}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: h.name, Controller: new(true)}}
		if i%2 == 0 {
			p.Spec.ResourceClaims = nil
		}
		all = append(all, p)
	}
	return append(all,
		&policyv1.PodDisruptionBudget{ObjectMeta: h.meta("b"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector, MinAvailable: new(intstr.FromInt32(0))}},
		&policyv1.PodDisruptionBudget{ObjectMeta: h.meta("all"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}},
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: h.meta("h"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MaxReplicas: 1 << 30, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: h.name}},
			Status: autoscalingv2.HorizontalPodAutoscalerStatus{DesiredReplicas: 1 << 30}},
		&corev1.LimitRange{ObjectMeta: h.meta("l"), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
			DefaultRequest: corev1.ResourceList{corev1.ResourceName(h.key): h.quantity()}}}}},
		&corev1.ResourceQuota{ObjectMeta: h.meta("r"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceName(h.key): h.quantity()}}},
		&resourcev1.ResourceClaim{ObjectMeta: h.meta("c"), Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "r",
			Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: h.name, Count: int64(h.count), Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: h.value}}}}}}}}},
	)
}

// made are the tenant's objects of other projects' kinds.
func (h hostile) made() foreign.Objects {
	template := map[string]any{"metadata": map[string]any{"labels": map[string]any{h.key: h.value}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c",
		"resources": map[string]any{"requests": map[string]any{"nvidia.com/gpu": "1"}, "limits": map[string]any{"nvidia.com/gpu": "1"}}}}}}
	n := int64(1) << (h.count % 40)
	out := foreign.Objects{}
	for kind, spec := range map[foreign.Kind]map[string]any{
		foreign.Deployment:      {"replicas": n, "template": template, "selector": map[string]any{}},
		foreign.JobSet:          {"replicatedJobs": []any{map[string]any{"name": h.name, "replicas": n, "template": map[string]any{"spec": map[string]any{"parallelism": n, "template": template}}}}},
		foreign.LeaderWorkerSet: {"replicas": n, "leaderWorkerTemplate": map[string]any{"size": n, "workerTemplate": template}},
		foreign.PluginsPodGroup: {"minMember": n, "minResources": map[string]any{"nvidia.com/gpu": h.amount}},
	} {
		for _, name := range []string{"vllm", "t"} { // that of chat's, too
			out.Add(foreign.Parse(kind, &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"namespace": hostileSpace, "name": name, "uid": "x", "labels": map[string]any{h.key: h.value}, "annotations": map[string]any{h.key: h.value}}, "spec": spec}}))
		}
	}
	return out
}

// page is the metrics page of the tenant's pod, with series about others.
func (h hostile) page() string {
	quoted := fmt.Sprintf("%q", strings.ToValidUTF8(h.value, ""))
	return fmt.Sprintf(`gpu_healthy{node="n",gpu="0",gpu_uuid=%s} 0
gpu_held{node="n",gpu="%d",gpu_uuid="GPU-1",namespace="chat",pod=%s} 1
gpu_attribution_age_seconds{node="n",job="gpuscale-exporter",instance="10.0.0.1:9400"} 1000000`, quoted, h.count, quoted)
}

// decided is what is observed and decided for the honest tenant. It has a running pod on node n, a pending pod that
// takes a node more, and a set of two pods. The other tenant's quota is 0.
func decided(t *testing.T, h *hostile) (chat []plan.Pod, nodes []plan.Node, verdicts []plan.Verdict, actions []plan.Action) {
	t.Helper()
	one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	running, pending := owned("a"), owned("b")
	running.Spec.Containers[0].Resources.Requests, pending.Spec.Containers[0].Resources.Requests = one, one
	pending.Spec.NodeName = ""
	pending.Labels = map[string]string{"app": "a"}
	pending.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	fleet := pool("p")
	fleet.Spec.MIG = nil
	none := &v1alpha1.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: hostileSpace}, Spec: v1alpha1.GPUQuotaSpec{
		Tenants: v1alpha1.Tenants{Namespaces: []string{hostileSpace}}, Amounts: []v1alpha1.QuotaAmount{{Model: "any", Limit: new(resource.MustParse("0"))}}}}
	objects := []client.Object{fleet, none, node("n", one), running, pending,
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}}
	objects[2].(*corev1.Node).Spec.Taints = nil // as its pool states
	targets := []target{exporter()}
	made := foreign.Objects{}
	made.Add(foreign.Parse(foreign.LeaderWorkerSet, &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "chat", "name": "vllm", "uid": "y"},
		"spec": map[string]any{"replicas": int64(1), "leaderWorkerTemplate": map[string]any{"size": int64(2), "workerTemplate": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "c", "resources": map[string]any{"requests": map[string]any{"nvidia.com/gpu": "1"}}}}}}}}}}))
	if h != nil {
		objects = append(objects, h.objects()...)
		targets = append(targets, targetIn(hostileSpace, "t-0", "gpuscale-exporter", "10.6.6.6:80", h.page()))
		for _, all := range h.made() {
			for _, o := range all {
				made.Add(o)
			}
		}
	}
	w := newWorld(t, objects...)
	w.o.o.Foreign = func() (foreign.Objects, error) { return made, nil }
	store := promtest.Load(t, scraped(t, targets...), memstore.Until(start, 0), nil)
	store.Now = start
	var err error
	if w.readings, err = Read(context.Background(), store, trust.From([]string{exporterSpace}), start); err != nil {
		t.Fatal(err)
	}
	seen := w.at(0)
	made1 := plan.Make(seen.Snapshot, plan.DefaultPolicy())
	for _, p := range seen.Pods {
		if p.Namespace == "chat" {
			chat = append(chat, p)
		}
	}
	verdicts = slices.DeleteFunc(made1.Verdicts, func(v plan.Verdict) bool { return !strings.HasPrefix(v.Subject, "chat/") && v.Kind != plan.KindNode })
	return chat, seen.Nodes, verdicts, made1.Actions
}

// FuzzTenancy: whatever a tenant without quota left creates in its namespace and serves on its pages, another tenant's
// pods and the decisions about them are as without it.
func FuzzTenancy(f *testing.F) {
	f.Add("vllm", "app", "a", "1", uint8(0))
	f.Add("a", "nvidia.com/gpu", "true", "1e18", uint8(7))
	f.Add("n", "kubernetes.io/hostname", "n", "9999", uint8(39))
	f.Add("gpu.nvidia.com", "nvidia.com/mig-1g.10gb", "device.driver == 'gpu.nvidia.com'", "8", uint8(3))
	f.Add("chat/b", "gpuscale.io/gang", "chat/vllm", "100Ei", uint8(12))
	f.Add("p", "gpu-fraction", "0.5", "1e-9", uint8(4))
	f.Add("m", "memory", "x", "8Ei", uint8(1))
	f.Add("c", "cpu", "x", "1e19", uint8(2))
	f.Add("b", "namespace", "chat", "-1", uint8(255))
	wantPods, wantNodes, wantVerdicts, wantActions := []plan.Pod(nil), []plan.Node(nil), []plan.Verdict(nil), []plan.Action(nil)
	f.Fuzz(func(t *testing.T, name, key, value, amount string, count uint8) {
		if wantPods == nil {
			wantPods, wantNodes, wantVerdicts, wantActions = decided(t, nil)
			if len(wantPods) != 4 || len(wantVerdicts) == 0 || len(wantActions) == 0 {
				t.Fatalf("the honest tenant has %d pods, %d verdicts, actions %v", len(wantPods), len(wantVerdicts), wantActions)
			}
		}
		pods, nodes, verdicts, actions := decided(t, &hostile{name, key, value, amount, count})
		for what, pair := range map[string][2]any{"pods": {pods, wantPods}, "nodes": {nodes, wantNodes}, "verdicts": {verdicts, wantVerdicts}, "actions": {actions, wantActions}} {
			if !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("%s: %+v, without the tenant %+v", what, pair[0], pair[1])
			}
		}
	})
}

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
		require.NoError(t, w.client.Create(t.Context(), &pdbs[i]))
	}
	w.o.o.Pods = func(context.Context) ([]*corev1.Pod, error) { return slices.Concat(pods...), nil }
	return w.at(0)
}

// TestLimitsOfANamespace: a namespace beyond a limit loses its own pods, with a reason, and they are counted. A
// namespace within the limits keeps all of its pods.
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
			want: Exceeded{"tenant", LimitPending, 3}, says: "namespace tenant has 10003 pending pods that request GPUs, and only the oldest 10000 are planned for"},
		"rules of a pod": {pods: pendingIn("tenant", 1, func(_ int, p *corev1.Pod) { apart(p, "a", maxRules+1) }),
			want: Exceeded{"tenant", LimitRules, 1}, says: "the pod has 65 topology rules"},
		"groups": {pods: pendingIn("tenant", maxGroups+1, func(i int, p *corev1.Pod) { apart(p, fmt.Sprint(i), 1) }),
			want: Exceeded{"tenant", LimitRules, maxGroups + 1}, says: "name more than 500 different groups of pods"},
		"constraints of a pod": {pods: pendingIn("tenant", 1, func(_ int, p *corev1.Pod) { p.Spec.Tolerations = make([]corev1.Toleration, maxConstraints+1) }),
			want: Exceeded{"tenant", LimitConstraints, 1}, says: "constraints on nodes (selectors and their values, tolerations, resources, host ports), at most 1000 are supported"},
		"labels": {pods: pendingIn("tenant", maxLabels+2, func(i int, p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{fmt.Sprint("l", i): "x"} }),
			want: Exceeded{"tenant", LimitConstraints, 2}, says: "name more than 500 different labels of nodes"},
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

// TestExclusiveSets: if each of several sets has a place of its own, a pod is in the group of its set and in the group
// of all sets. A namespace may have one set less than groups.
func TestExclusiveSets(t *testing.T) {
	for _, sets := range []int{maxGroups - 1, maxGroups} {
		w := newWorld(t, pool("p"))
		w.neighbour(foreign.LeaderWorkerSet, `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet,
  metadata: {namespace: team, name: lws, annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: zone}}, spec: {replicas: `+fmt.Sprint(sets)+`, leaderWorkerTemplate:
    {size: 2, workerTemplate: {spec: {containers: [{name: c, resources: {requests: {nvidia.com/gpu: "1"}}}]}}}}}`)
		got := w.at(0)
		last, all := got.Pods[2*sets-1], "team/leaderworkerset.sigs.k8s.io/group-key"
		if sets == maxGroups {
			if !slices.Equal(got.Exceeded, []Exceeded{{"team", LimitRules, 2 * sets}}) || !strings.Contains(last.Unreadable, "more than 500 different groups") {
				t.Errorf("exceeded %+v, the last %+v", got.Exceeded, last)
			}
		} else if own := last.Groups[1]; len(got.Exceeded) > 0 || !strings.HasPrefix(own, all+" in (") || !slices.Equal(last.Groups, []string{all, own}) ||
			!slices.Equal(last.Near, []plan.Rule{{Key: "zone", Group: own}}) || !slices.Equal(last.Apart, []plan.Apart{{Rule: plan.Rule{Key: "zone", Group: all}, Except: own}}) {
			t.Errorf("exceeded %+v, the last %+v", got.Exceeded, last)
		}
	}
}

// TestLimitsOfBoundPods: running pods are never left out, whatever their rules: their GPUs are in use.
func TestLimitsOfBoundPods(t *testing.T) {
	got := limited(t, nil, pendingIn("tenant", 1, func(_ int, p *corev1.Pod) {
		apart(p, "a", maxRules+1)
		p.Spec.NodeName = "n"
	}))
	if len(got.Pods) != 1 || got.Pods[0].Unreadable != "" || got.Pods[0].Demand.GPUs != 1 {
		t.Errorf("%+v", got.Pods)
	}
}

// TestWorkIsLinear: comparisons of labels with selectors grow linearly with what one namespace sends, in that namespace
// and in those that its rules name.
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
			if name := out.Apart[0].Group; len(name) > 100 {
				t.Fatalf("each pod has a name of %d bytes: %s", len(name), name)
			}
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
	if s := readSelectors(list(nested(16))); s.unread != nil || s.driver != "gpu.nvidia.com" {
		t.Errorf("nested 16 times: %+v", s)
	}
	for name, selectors := range map[string][]resourcev1.DeviceSelector{
		"nested": list(nested(1000)), "long": list(strings.Repeat(" ", maxSelectors) + "true"), "many": list(slices.Repeat([]string{nested(1000)}, 100)...),
	} {
		if s := readSelectors(selectors); s.unread == nil || s.driver != "" || len(s.unread.Error()) > 1000 {
			t.Errorf("%s: %v, driver %q", name, s.unread, s.driver)
		}
	}
}
