package observe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

// TestScenarios runs testdata/scenarios: what is observed of a cluster, and planned for it.
//
//	base                      the objects that all cases below have too, until the next base
//	pods | nodes | pools | tenants [of=(NAME,…)] [show=(WORD,…)]
//	                          what is observed, in the language of plan/scenario; with show these words of it alone
//	problems                  what is invalid, and what is logged
//	hpas | requests           HPAs for display, ProvisioningRequests
//	plan [verdicts=(KIND,…)]  actions, and verdicts on pending pods and gangs, or on these kinds
//	removals for=DURATION     the nodes that are removed in that time, planned every 15 s
//	demand                    of pods in short, one a line: "NAME: {limits: …}" of one container, or of several
//	                          (containers), requests of a claim of its own (claim), labels, annotations, scheduler;
//	                          beside objects in braces
//
// Their input is objects as a user writes them, one in braces on a line, or several lines between "---", and series in
// Prometheus' notation. They replace objects of the base by name; a name like p-{0..7} stands for eight. It is 9:00;
// at=DURATION is later. The word again continues in the cluster of the case above, with these objects too. Without
// input it runs another verb on the same cluster.
//
// What is not stated is as in a cluster without surprises: objects are in namespace chat; a node is an hour old,
// ready, with 32 cores and 256Gi; a pod is a minute old, requests its limits, and without a node and status the
// scheduler has found none for it; a pool has nodes like that and a provider that makes them. All are trimmed as in
// the program's caches.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		c := &scene{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "base" {
				c.base = d.Input
				return "ok\n"
			}
			return cmp.Or(c.do(t, d), "nothing\n")
		})
	})
}

// scene is a cluster of a scenario file.
type scene struct {
	base    string
	world   *world
	foreign foreign.Objects
	seen    Observation
	at      time.Duration
}

func (c *scene) do(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	args := map[string][]string{}
	for _, a := range d.CmdArgs {
		args[a.Key] = a.Vals
	}
	if _, again := args["again"]; !again {
		c.world, c.foreign, c.at = nil, foreign.Objects{}, 0
	}
	if at := args["at"]; at != nil {
		c.at = duration(t, at[0])
	}
	if d.Cmd == "demand" {
		return c.demand(t, d.Input)
	}
	c.world = c.with(t, d.Input)
	if d.Cmd == "removals" {
		return strings.Join(c.world.removals(1+int(duration(t, args["for"][0])/(15*time.Second))), "\n") + "\n"
	}
	c.seen = c.world.at(c.at)
	s := c.seen.Snapshot
	switch d.Cmd {
	case "pods":
		return lines(s.Now, s.Pods, args, func(p *plan.Pod) string { return p.Key() }, func(p plan.Pod) plan.Snapshot { return plan.Snapshot{Pods: []plan.Pod{p}} })
	case "nodes":
		return lines(s.Now, s.Nodes, args, func(n *plan.Node) string { return n.Name }, func(n plan.Node) plan.Snapshot { return plan.Snapshot{Nodes: []plan.Node{n}} })
	case "pools":
		return lines(s.Now, s.Pools, args, func(p *plan.Pool) string { return p.Name }, func(p plan.Pool) plan.Snapshot { return plan.Snapshot{Pools: []plan.Pool{p}} })
	case "tenants":
		return lines(s.Now, s.Tenants, args, func(t *plan.Tenant) string { return t.Name }, func(t plan.Tenant) plan.Snapshot { return plan.Snapshot{Tenants: []plan.Tenant{t}} })
	case "problems":
		return c.problems()
	case "hpas":
		return each(c.seen.HPAs, func(h *autoscalingv2.HorizontalPodAutoscaler) string { return h.Namespace + "/" + h.Name })
	case "requests":
		return each(c.seen.Requests, func(r Request) string {
			text := fmt.Sprintf("%s/%s checks %d pods", r.Namespace, r.Name, len(r.Check))
			for i := range s.Pods {
				if r.Has(&s.Pods[i]) {
					text += ", has " + s.Pods[i].Key()
				}
			}
			return text
		})
	case "plan":
		return planned(s, args["verdicts"])
	}
	t.Fatalf("%s: there is no %s", d.Pos, d.Cmd)
	return ""
}

// demand prints what pods request, or why that cannot be read.
func (c *scene) demand(t *testing.T, text string) string {
	t.Helper()
	type short struct {
		Limits              corev1.ResourceList
		Containers          []corev1.ResourceList
		Claim               []resourcev1.DeviceRequest
		Labels, Annotations map[string]string
		Scheduler           string
	}
	var names []string
	var docs strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "{") {
			docs.WriteString(line)
			continue
		}
		name, fields, _ := strings.Cut(line, ": {")
		var in short
		if err := yaml.UnmarshalStrict([]byte("{"+fields), &in); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		p := corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%03d", len(names)), Labels: in.Labels, Annotations: in.Annotations}}
		p.Spec.SchedulerName = in.Scheduler
		if in.Containers == nil {
			in.Containers = []corev1.ResourceList{in.Limits}
		}
		for _, limits := range in.Containers {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: corev1.ResourceRequirements{Limits: limits}})
		}
		if in.Claim != nil {
			claims := resourcev1.ResourceClaimTemplate{TypeMeta: metav1.TypeMeta{Kind: "ResourceClaimTemplate"}, ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
			claims.Spec.Spec.Devices.Requests = in.Claim
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "r", ResourceClaimTemplateName: &claims.Name}}
			p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "r"}}
			docs.WriteString(encoded(t, claims))
		}
		names = append(names, name)
		docs.WriteString(encoded(t, p))
	}
	seen := map[string]plan.Pod{}
	for _, p := range c.with(t, docs.String()).at(0).Pods {
		seen[p.Name] = p
	}
	out := ""
	for i, name := range names {
		p, ok := seen[fmt.Sprintf("p%03d", i)]
		switch {
		case !ok:
			out += name + ": none\n"
		case p.Unreadable != "" && p.Demand.Zero():
			out += name + ": unreadable, " + p.Unreadable + "\n"
		default:
			out += fmt.Sprintf("%s: %s\n", name, p.Demand)
		}
	}
	return out
}

func encoded(t *testing.T, o any) string {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	return string(text) + "\n"
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

func each[T any](list []T, text func(T) string) (out string) {
	for _, v := range list {
		out += text(v) + "\n"
	}
	return out
}

// lines prints things of a snapshot.
func lines[T any](now time.Time, list []T, args map[string][]string, name func(*T) string, alone func(T) plan.Snapshot) (out string) {
	for i := range list {
		if of := args["of"]; of != nil && !slices.Contains(of, name(&list[i])) {
			continue
		}
		s := alone(list[i])
		s.Now = now
		_, text, _ := strings.Cut(scenario.Print(s), "\n") // without the time
		for line := range strings.Lines(text) {
			out += only(strings.TrimSuffix(line, "\n"), args["show"]) + "\n"
		}
	}
	return out
}

// only leaves out the words of a line that are not to be shown.
func only(line string, show []string) string {
	var words []string
	depth, quoted, from := 0, false, 0
	for i, r := range line + " " {
		switch {
		case r == '"' && line[i-1] != '\\':
			quoted = !quoted
		case quoted:
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ' ' && depth == 0:
			words = append(words, line[from:i])
			from = i + 1
		}
	}
	out := words[:2]
	for _, w := range words[2:] {
		if key, _, _ := strings.Cut(w, "="); show == nil || slices.Contains(show, key) {
			out = append(out, w)
		}
	}
	return strings.Join(out, " ")
}

func (c *scene) problems() string {
	var all []string
	add := func(what string, err error) { all = append(all, fmt.Sprintf("%s: %v", what, err)) }
	for name, err := range c.seen.Invalid {
		add("pool "+name, err)
	}
	for name, err := range c.seen.Foreign {
		add("nodes of pool "+name, err)
	}
	for of, err := range c.seen.QuotaProblems {
		add(of, err)
	}
	for what, text := range c.world.o.warned {
		if text != "" && what != "gangs and quotas" {
			all = append(all, what+": "+text)
		}
	}
	slices.Sort(all)
	return each(all, func(text string) string { return text })
}

// planned prints a plan's actions with the pods that they are for, and its verdicts of these kinds.
func planned(s plan.Snapshot, kinds []string) string {
	if kinds == nil {
		kinds = []string{string(plan.KindPod), string(plan.KindGang)}
	}
	made := plan.Make(s, plan.DefaultPolicy())
	out := each(made.Actions, func(a plan.Action) string {
		text, _, _ := strings.Cut(a.String(), "\n")
		if len(a.For) > 0 {
			text += " for " + strings.Join(a.For, " ")
		}
		return text
	})
	for _, v := range made.Verdicts {
		if slices.Contains(kinds, string(v.Kind)) && v.Reason != plan.Running {
			out += v.String() + "\n"
		}
	}
	return out
}

var aSeries = regexp.MustCompile(`^[a-z_]+\{.*\} \S+$`)

// with returns the cluster with these objects and series.
func (c *scene) with(t *testing.T, text string) *world {
	t.Helper()
	typed := map[string]client.Object{}
	series := ""
	input := []string{text}
	if c.world == nil {
		input = []string{c.base, text}
	}
	for _, text := range input {
		for _, chunk := range strings.Split(text, "\n---\n") {
			block := ""
			for line := range strings.Lines(chunk) {
				switch {
				case strings.HasPrefix(line, "{"):
					c.add(t, line, typed)
				case aSeries.MatchString(strings.TrimSpace(line)):
					series += line
				default:
					block += line
				}
			}
			if strings.TrimSpace(block) != "" {
				c.add(t, block, typed)
			}
		}
	}
	w := c.world
	if w == nil {
		w = newWorld(t, slices.Collect(maps.Values(typed))...)
		w.o.o.Foreign = func() (foreign.Objects, error) {
			return c.foreign.Resolve([]string{foreign.AtomicScaleUp, foreign.CheckCapacity}), nil
		}
	} else {
		w.t = t
		for _, o := range typed {
			err := w.client.Create(t.Context(), o)
			if apierrors.IsAlreadyExists(err) { // an update would leave its status
				err = cmp.Or(w.client.Delete(t.Context(), o), w.client.Create(t.Context(), o))
			}
			require.NoError(t, err)
		}
	}
	if series != "" {
		store := promtest.Load(t, series+"\n", memstore.Until(start.Add(c.at), time.Second), nil)
		store.Now = start.Add(c.at)
		var err error
		w.readings, err = Read(t.Context(), store, nil, store.Now)
		require.NoError(t, err)
	}
	return w
}

// apis are the API versions of kinds that need not state theirs.
var apis = map[string]string{
	"GPUNodePool": v1alpha1.GroupVersion.String(), "GPUQuota": v1alpha1.GroupVersion.String(), "Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1",
	"PodDisruptionBudget": "policy/v1", "HorizontalPodAutoscaler": "autoscaling/v2", "PriorityClass": "scheduling.k8s.io/v1",
	"StorageClass": "storage.k8s.io/v1", "CSINode": "storage.k8s.io/v1", "DeviceClass": "resource.k8s.io/v1", "ResourceSlice": "resource.k8s.io/v1", "DeviceTaintRule": "resource.k8s.io/v1", "RuntimeClass": "node.k8s.io/v1",
	"ResourceClaim": "resource.k8s.io/v1", "ResourceClaimTemplate": "resource.k8s.io/v1",
	"JobSet": "jobset.x-k8s.io/v1alpha2", "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1", "NodeClaim": "karpenter.sh/v1", "ProvisioningRequest": "autoscaling.x-k8s.io/v1",
}

// clusterWide are kinds without a namespace.
var clusterWide = []string{"Node", "Namespace", "GPUNodePool", "GPUQuota", "PersistentVolume", "StorageClass", "CSINode", "PriorityClass", "DeviceClass", "ResourceSlice", "DeviceTaintRule", "RuntimeClass",
	"ResourceFlavor", "AdmissionCheck", "ClusterQueue", "Cohort", "NodeClaim"}

// add reads an object, and adds what the API server and others would have by now.
func (c *scene) add(t *testing.T, text string, typed map[string]client.Object) {
	t.Helper()
	var u unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if before, rest, ok := strings.Cut(u.GetName(), "{"); ok {
		low, high := 0, 0
		if _, err := fmt.Sscanf(rest, "%d..%d}", &low, &high); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		for i := low; i <= high; i++ {
			u.SetName(before + strconv.Itoa(i))
			c.add(t, encoded(t, u.Object), typed)
		}
		return
	}
	kind := u.GetKind()
	u.SetAPIVersion(cmp.Or(u.GetAPIVersion(), apis[kind], "v1"))
	if u.GetNamespace() == "" && !slices.Contains(clusterWide, kind) {
		u.SetNamespace("chat")
	}
	age := map[string]time.Duration{"Node": time.Hour, "Pod": time.Minute}[kind]
	if made := u.GetCreationTimestamp(); made.IsZero() {
		u.SetCreationTimestamp(metav1.NewTime(start.Add(-age)))
	}
	plural, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
	o, err := kinds.New(u.GroupVersionKind())
	if err != nil || slices.Contains([]string{"PodGroup", "PodTemplate", "Deployment", "StatefulSet", "DaemonSet", "ResourceSlice", "DeviceTaintRule", "RuntimeClass"}, kind) {
		c.foreign.Add(foreign.Parse(foreign.Kind(plural.GroupResource().String()), &u))
		return
	}
	encoded, err := json.Marshal(u.Object)
	if err == nil {
		err = json.Unmarshal(encoded, o)
	}
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	object := o.(client.Object)
	defaults(object)
	for _, trim := range []func(any) (any, error){TrimPods(), TrimNode, TrimVolume} { // as the caches do
		_, err := trim(object)
		require.NoError(t, err)
	}
	typed[kind+" "+object.GetNamespace()+"/"+object.GetName()] = object
}

// defaults applies to objects what TestScenarios states about them.
func defaults(o client.Object) {
	unstated := func(list *corev1.ResourceList, amounts corev1.ResourceList) {
		for name, q := range amounts {
			if _, stated := (*list)[name]; !stated {
				if *list == nil {
					*list = corev1.ResourceList{}
				}
				(*list)[name] = q
			}
		}
	}
	size := corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("256Gi")}
	switch o := o.(type) {
	case *corev1.Node:
		unstated(&o.Status.Allocatable, size)
		if o.Status.Conditions == nil {
			o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}
	case *corev1.Pod:
		for i := range o.Spec.Containers {
			unstated(&o.Spec.Containers[i].Resources.Requests, o.Spec.Containers[i].Resources.Limits)
		}
		if o.Spec.NodeName == "" && len(o.Status.Conditions) == 0 && o.Status.Phase == "" {
			o.Status = stuckPod("", nil).Status
		}
	case *v1alpha1.GPUNodePool:
		if o.Spec.Provider == (v1alpha1.Provider{}) {
			o.Spec.Provider = nodegroups.Of(o.Name)
		}
		if o.Spec.Template.CPU.IsZero() {
			o.Spec.Template.CPU, o.Spec.Template.Memory = size["cpu"], size["memory"]
		}
	}
}
