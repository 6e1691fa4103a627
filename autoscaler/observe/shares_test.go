package observe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan"
)

// neighbour adds an object of another API to the world.
func (w *world) neighbour(k foreign.Kind, text string) {
	w.t.Helper()
	var u unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		w.t.Fatal(err)
	}
	o := foreign.Parse(k, &u)
	if o.Err != nil {
		w.t.Fatal(o.Err)
	}
	had, _ := w.o.o.Foreign()
	if had == nil {
		had = foreign.Objects{}
	}
	had[k] = append(had[k], o)
	w.o.o.Foreign = func() (foreign.Objects, error) { return had, nil }
}

// TestTemplatesGetDefaults: LimitRange defaults, the priority of a class, and
// the rules of the template apply to pods that do not exist yet.
func TestTemplatesGetDefaults(t *testing.T) {
	w := newWorld(t, pool("p"),
		&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "l"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{"cpu": resource.MustParse("3")},
		}}}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 700},
		&v1alpha1.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: v1alpha1.GPUQuotaSpec{
			Tenants: v1alpha1.Tenants{Namespaces: []string{"chat"}}, Amounts: []v1alpha1.QuotaAmount{{Model: "any"}},
		}},
	)
	w.neighbour(foreign.LeaderWorkerSet, `
metadata: {namespace: chat, name: vllm}
spec:
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      metadata: {labels: {app: vllm}}
      spec:
        priorityClassName: urgent
        containers: [{name: c, resources: {limits: {nvidia.com/mig-3g.40gb: 1, rdma/hca: 2}}}]
        topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: vllm}}}]`)
	out := w.at(0)
	if len(out.Pods) != 2 {
		t.Fatalf("pods %+v", out.Pods)
	}
	p := out.Pods[0]
	if !p.Unmade || !p.Unschedulable || p.CPUMilli != 3000 || p.Priority != 700 || p.Tenant != "team" || p.Gang != "chat/lws/vllm/0" || p.GangMin != 2 ||
		fmt.Sprint(p.Demand) != "3g.40gb×1" || fmt.Sprint(p.Others) != "[{rdma/hca 2}]" {
		t.Errorf("%+v, requests %s", p, p.Demand)
	}
	if len(p.Groups) != 1 || len(p.Spread) != 1 || p.Spread[0].Group != p.Groups[0] {
		t.Errorf("groups %q, spread %+v", p.Groups, p.Spread)
	}
	if len(out.Tenants) != 1 || out.Tenants[0].Name != "team" {
		t.Errorf("tenants %+v", out.Tenants)
	}
}

// TestNoObservationBeforeForeignObjects: until other APIs are listed nothing is decided, since members of a
// gang would look like single pods.
func TestNoObservationBeforeForeignObjects(t *testing.T) {
	w := newWorld(t, pool("p"))
	w.o.o.Foreign = func() (foreign.Objects, error) { return nil, foreign.ErrNotYet }
	if _, err := w.o.Observe(t.Context(), start); !errors.Is(err, foreign.ErrNotYet) {
		t.Errorf("err = %v", err)
	}
}

// TestTopologyRules: a rule of one pod about others has one group wherever it occurs, and pods of
// other namespaces are in it only where selected.
func TestTopologyRules(t *testing.T) {
	term := func(namespaces ...string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{TopologyKey: "host", Namespaces: namespaces, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}}}
	}
	a := pod("a", "n", halves(1))
	a.Labels = map[string]string{"app": "a"}
	b := pod("b", "n", halves(1))
	b.Spec.Affinity = &corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term()},
		PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("other", "chat")},
	}
	far := pod("far", "n", halves(1))
	far.Namespace, far.Labels = "other", map[string]string{"app": "a"}
	w := newWorld(t, pool("p"), node("n", halves(2)), a, b, far)
	pods := map[string]plan.Pod{}
	for _, p := range w.at(0).Pods {
		pods[p.Name] = p
	}
	apart, near := pods["b"].Apart, pods["b"].Near
	if len(apart) != 1 || len(near) != 1 || apart[0].Key != "host" {
		t.Fatalf("apart %v, near %v", apart, near)
	}
	in := func(p, group string) bool {
		return strings.Contains("|"+strings.Join(pods[p].Groups, "|")+"|", "|"+group+"|")
	}
	if !in("a", apart[0].Group) || in("far", apart[0].Group) || in("b", apart[0].Group) {
		t.Errorf("apart from %q: a %q, far %q, b %q", apart[0].Group, pods["a"].Groups, pods["far"].Groups, pods["b"].Groups)
	}
	if !in("a", near[0].Group) || !in("far", near[0].Group) {
		t.Errorf("near %q: a %q, far %q", near[0].Group, pods["a"].Groups, pods["far"].Groups)
	}
}

// TestOthers: other extended resources are counted too; a pool's nodes define what a new one will
// have.
func TestOthers(t *testing.T) {
	n := node("n", halves(2))
	n.Status.Allocatable["rdma/hca"] = resource.MustParse("8")
	m := node("m", halves(2))
	m.Status.Allocatable["rdma/hca"] = resource.MustParse("4")
	w := newWorld(t, pool("p"), n, m)
	out := w.at(0)
	if got := fmt.Sprint(out.Pools[0].Template.Others); got != "[{rdma/hca 4}]" {
		t.Errorf("a new node has %s", got)
	}
	for _, n := range out.Nodes {
		if len(n.Others) != 1 || n.Others[0].Name != "rdma/hca" {
			t.Errorf("%s has %v: MIG resources are GPUs, not others", n.Name, n.Others)
		}
	}
}

// TestQuotaProblemsAreIsolated: a circle of quotas is reported for them, and everything else is
// unaffected.
func TestQuotaProblemsAreIsolated(t *testing.T) {
	q := func(name, parent string) *v1alpha1.GPUQuota {
		return &v1alpha1.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.GPUQuotaSpec{Parent: parent, Amounts: []v1alpha1.QuotaAmount{{Model: "any"}}}}
	}
	w := newWorld(t, pool("p"), node("n", halves(2)), q("a", "b"), q("b", "a"), q("c", ""))
	out := w.at(0)
	if len(out.Tenants) != 3 || len(out.Pools) != 1 || len(out.Nodes) != 1 || len(out.QuotaProblems) != 2 {
		t.Errorf("tenants %v, problems %v", out.Tenants, out.QuotaProblems)
	}
}

// past answers range queries.
type past func(promql string) ([]prom.Line, error)

func (p past) Range(_ context.Context, promql string, _, _ time.Time, _ time.Duration) ([]prom.Line, error) {
	return p(promql)
}

// TestForecasts: a series becomes replicas of its workload; what is unknown has a reason and is not
// zero.
func TestForecasts(t *testing.T) {
	steady := func(string) ([]prom.Line, error) {
		var l prom.Line
		for i := range 200 {
			l.Points = append(l.Points, prom.Point{Time: start.Add(time.Duration(i-200) * time.Minute), Value: 40})
		}
		return []prom.Line{l}, nil
	}
	for name, c := range map[string]struct {
		past   past
		after  time.Duration
		unsure string
	}{
		"steady":  {past: steady},
		"away":    {past: func(string) ([]prom.Line, error) { return nil, prom.ErrUnavailable }, unsure: "Prometheus does not answer: "},
		"nothing": {past: func(string) ([]prom.Line, error) { return nil, nil }, unsure: "the query has no series"},
		"two":     {past: func(string) ([]prom.Line, error) { return make([]prom.Line, 2), nil }, unsure: "put sum() around it"},
		"overdue": {past: steady, after: time.Hour, unsure: "overdue"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pool("p"))
			w.neighbour(foreign.Deployment, `
metadata: {namespace: chat, name: vllm}
spec: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/mig-3g.40gb: 1}}}]}}}`)
			o := NewOutlooks(c.past, []Series{{
				Namespace: "chat", Kind: "Deployment", Name: "vllm", Query: "q", PerReplica: 4, Horizon: 10 * time.Minute, History: 4 * time.Hour, Step: time.Minute,
			}}, time.Minute, nil)
			o.Once(t.Context(), start)
			w.o.o.Outlooks = o.Latest
			out := w.at(c.after)
			if len(out.Forecasts) != 1 {
				t.Fatalf("forecasts %+v", out.Forecasts)
			}
			f := out.Forecasts[0]
			if c.unsure != "" {
				if !strings.Contains(f.Unsure, c.unsure) {
					t.Errorf("unsure %q, want %q", f.Unsure, c.unsure)
				}
				return
			}
			if f.Unsure != "" || f.Name != "chat/vllm" || f.Expected < 9.9 || f.Expected > 10.1 || f.Error > 0.01 || f.Have != 0 || fmt.Sprint(f.Like.Demand) != "3g.40gb×1" {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestResourceQuotaBesideGPUQuota: no node is added for pods that the API server would
// refuse, whatever other quota admits them, and the verdict names the quota.
func TestResourceQuotaBesideGPUQuota(t *testing.T) {
	const name = corev1.ResourceName("requests.nvidia.com/gpu")
	amounts := func(n string) corev1.ResourceList { return corev1.ResourceList{name: resource.MustParse(n)} }
	large := pool("p")
	large.Spec.Min, large.Spec.MIG, large.Spec.Template.GPUs = 0, nil, 8
	for used, want := range map[string]string{
		"0": "2 of team",
		"1": "0 of team, 2 of resourcequota/chat/gpus/no-more/requests.nvidia.com/gpu", // a gang's pods are created all or none
	} {
		w := newWorld(t, large,
			&v1alpha1.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: v1alpha1.GPUQuotaSpec{
				Tenants: v1alpha1.Tenants{Namespaces: []string{"chat"}}, Amounts: []v1alpha1.QuotaAmount{{Model: "any", Guaranteed: ptr.To(resource.MustParse("50"))}},
			}},
			&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "gpus"}, Spec: corev1.ResourceQuotaSpec{Hard: amounts("16")},
				Status: corev1.ResourceQuotaStatus{Hard: amounts("16"), Used: amounts(used)}},
		)
		w.neighbour(foreign.LeaderWorkerSet, `
metadata: {namespace: chat, name: vllm}
spec: {leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}}}}`)
		out := w.at(0)
		of := map[string]int{}
		for _, p := range out.Pods {
			of[p.Tenant]++
		}
		got := fmt.Sprintf("%d of team", of["team"])
		for tenant, n := range of {
			if tenant != "team" {
				got += fmt.Sprintf(", %d of %s", n, tenant)
			}
		}
		if got != want {
			t.Errorf("%s used: %s, want %s", used, got, want)
		}
		made := plan.Make(out.Snapshot, plan.DefaultPolicy())
		if scaledUp := len(made.Actions) > 0; scaledUp != (used == "0") {
			t.Errorf("%s used: %s", used, made)
		}
		if used != "0" && !strings.Contains(made.String(), "resourcequota/chat/gpus/no-more/requests.nvidia.com/gpu") {
			t.Errorf("the answer does not name the quota: %s", made)
		}
	}
}
