package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/forecast"
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
        topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: vllm}}}]`)
	out := w.at(0)
	if len(out.Pods) != 2 {
		t.Fatalf("pods %+v", out.Pods)
	}
	p := out.Pods[0]
	if !p.Unmade || !p.Unschedulable || p.CPUMilli != 3000 || p.Priority != 700 || p.Tenant != "team" || p.Gang != "chat/lws/vllm/0" || p.GangMin != 2 ||
		fmt.Sprint(p.Demand) != "3g.40gb×1" || fmt.Sprint(p.Others) != "[{rdma/hca 2}]" {
		t.Errorf("%+v, requests %s", p, p.Demand)
	}
	if len(p.Groups) != 1 || !slices.Equal(p.Spread, []plan.Spread{{Rule: plan.Rule{Key: "zone", Group: p.Groups[0]}, MaxSkew: 1, MinDomains: 3, IgnoreAffinity: true, HonorTaints: true}}) {
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

func hpaFor(name, kind, target string, conditions ...autoscalingv2.HorizontalPodAutoscalerCondition) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: kind, Name: target}, MaxReplicas: 5,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{CurrentReplicas: 2, DesiredReplicas: 3, Conditions: conditions},
	}
}

func condition(kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason string) autoscalingv2.HorizontalPodAutoscalerCondition {
	return autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind, Status: status, Reason: reason}
}

// TestHPAs: an HPA is listed if its pods request GPUs; without pods, its target's
// template decides and is read once.
func TestHPAs(t *testing.T) {
	running := pod("vllm-0", "n", halves(1))
	running.OwnerReferences = []metav1.OwnerReference{{Controller: ptr.To(true), Kind: "StatefulSet", Name: "vllm"}}
	plain := pod("web-0", "n", corev1.ResourceList{"cpu": resource.MustParse("1")})
	plain.OwnerReferences = []metav1.OwnerReference{{Controller: ptr.To(true), Kind: "StatefulSet", Name: "web"}}
	template := func(name string, requests corev1.ResourceList) *foreign.Object {
		return &foreign.Object{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name}, Maker: &foreign.Maker{Roles: []foreign.Role{{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}}},
		}}}}
	}
	asleep, website := template("asleep", halves(2)), template("website", corev1.ResourceList{"cpu": resource.MustParse("1")})
	w := newWorld(t, pool("p"), node("n", halves(2)), running, plain,
		hpaFor("vllm", "StatefulSet", "vllm",
			condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "ReadyForNewScale"),
			condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, "FailedGetPodsMetric"),
			condition(autoscalingv2.ScalingLimited, corev1.ConditionTrue, "TooManyReplicas")),
		hpaFor("web", "StatefulSet", "web"), hpaFor("asleep", "Deployment", "asleep"), hpaFor("website", "Deployment", "website"),
		hpaFor("lost", "Deployment", "gone"))
	w.o.o.Foreign = func() (foreign.Objects, error) {
		return foreign.Objects{foreign.Deployment: {asleep, website}}, nil
	}
	for range 2 { // the second time from the cache
		got := w.at(0).HPAs
		if len(got) != 2 || got[0].Name != "asleep" || got[1].Name != "vllm" {
			t.Fatalf("%+v", got)
		}
		if a := got[0]; a.Seen || a.Min != 1 || a.Max != 5 || len(a.Limits) > 0 {
			t.Errorf("%+v: its controller has never looked at it", a)
		}
		if v := got[1]; !v.Seen || v.Current != 2 || v.Desired != 3 || !slices.Equal(v.Limits, []string{"FailedGetPodsMetric", "TooManyReplicas"}) {
			t.Errorf("%+v", v)
		}
	}
	if len(w.o.requesting) != 2 || !w.o.requesting[asleep] || w.o.requesting[website] {
		t.Errorf("cached %v", w.o.requesting)
	}
}

// TestRefusedReplicasExpire: replicas that an HPA requests and that are never created, for a reason that
// no quota explains, are no demand after ten minutes: a node would be kept for them for ever.
func TestRefusedReplicasExpire(t *testing.T) {
	for name, c := range map[string]struct {
		scaled time.Duration // before now
		quota  bool
		want   int // missing replicas that are demand
	}{
		"just now":                   {time.Minute, false, 1},
		"long ago":                   {20 * time.Minute, false, 0},
		"long ago, a quota explains": {20 * time.Minute, true, 1},
	} {
		h := hpaFor("vllm", "StatefulSet", "vllm")
		h.Status.DesiredReplicas, h.Status.CurrentReplicas = 1, 0
		h.Status.LastScaleTime = ptr.To(metav1.NewTime(start.Add(-c.scaled)))
		objects := []client.Object{poolOf("NVIDIA-L40S", 1), bare("n", amount("nvidia.com/gpu", 1)), h}
		if c.quota {
			objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "chat"}}, &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "none"},
				Spec:       corev1.ResourceQuotaSpec{Hard: amount("requests.nvidia.com/gpu", 0)},
				Status:     corev1.ResourceQuotaStatus{Hard: amount("requests.nvidia.com/gpu", 0), Used: amount("requests.nvidia.com/gpu", 0)},
			})
		}
		w := newWorld(t, objects...)
		w.o.o.Foreign = func() (foreign.Objects, error) {
			return foreign.Objects{foreign.StatefulSet: {{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "vllm"}, Kind: foreign.StatefulSet, Maker: &foreign.Maker{Sets: 1, Roles: []foreign.Role{{
				Count: 1, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amount("nvidia.com/gpu", 1)}}}}},
			}}}}}}, nil
		}
		got := 0
		for _, p := range w.at(0).Pods {
			if p.Unmade {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s: %d replicas are demand, want %d", name, got, c.want)
		}
	}
}

// A forecast for a holiday follows the weekend before, and the log says so once.
func TestForecastOfAHoliday(t *testing.T) {
	now := time.Date(2026, 12, 25, 6, 0, 0, 0, time.UTC)
	week := past(func(string) ([]prom.Line, error) {
		var l prom.Line
		for at := now.AddDate(0, 0, -7); !at.After(now); at = at.Add(5 * time.Minute) {
			x := 2.0
			if d := at.Weekday(); at.Hour() >= 7 && at.Hour() < 19 && d != time.Saturday && d != time.Sunday {
				x = 10
			}
			l.Points = append(l.Points, prom.Point{Time: at, Value: x})
		}
		return []prom.Line{l}, nil
	})
	var log bytes.Buffer
	o := NewOutlooks(week, []Series{{
		Namespace: "chat", Kind: "Deployment", Name: "vllm", Query: "q", PerReplica: 1, Horizon: 2 * time.Hour, History: 7 * 24 * time.Hour, Step: 5 * time.Minute,
		Holidays: forecast.NewHolidays(time.UTC, []time.Weekday{time.Saturday, time.Sunday}, []time.Time{now}),
	}}, time.Minute, slog.New(slog.NewTextHandler(&log, nil)))
	o.Once(t.Context(), now)
	o.Once(t.Context(), now)
	_, expected, _, _, unsure := o.Latest()[0].replicas()
	if unsure != "" || expected < 1.9 || expected > 2.1 {
		t.Errorf("%v replicas, unsure %q: want the weekend's 2", expected, unsure)
	}
	if n := strings.Count(log.String(), `msg="forecast for a holiday" workload=Deployment/chat/vllm why="2026-12-25 is a holiday`); n != 1 {
		t.Errorf("the log says it %d times, want once:\n%s", n, &log)
	}
}
