package observe

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/gangs"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/plan"
)

// unmadeExpires is how long replicas that an HPA requests count before they exist. The HPA's target creates them within
// seconds, unless admission refuses them for a reason that no quota explains. Without this bound a node would be kept
// for them for ever.
const unmadeExpires = 10 * time.Minute

// complete adds to a converted pod what depends on other objects.
func (c *cluster) complete(p *corev1.Pod, out plan.Pod) plan.Pod {
	c.rules.of(p.Namespace, p.Labels, &p.Spec, &out)
	c.volumes.of(p, &out)
	c.sized(&out)
	c.placed(p, &out)
	c.keepOff(p, &out)
	out.Data = c.data.of(p)
	return out
}

// template returns the pod that would be created from t, and its conversion. The pod has the namespace's defaults, the
// priority of its class, and what its RuntimeClass adds (1.37, plugin/pkg/admission/runtimeclass).
func (c *cluster) template(namespace string, t *corev1.PodTemplateSpec) (plan.Pod, *corev1.Pod) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: t.Labels, Annotations: t.Annotations}}
	p.Spec = withDefaults(&t.Spec, c.limits[namespace])
	c.prioritize(&p.Spec)
	if class := c.foreign.Get(foreign.RuntimeClass.Of("", ptr.Deref(p.Spec.RuntimeClassName, ""))); class != nil && class.Flavor != nil {
		class.Flavor.AddTo(&p.Spec)
	}
	p.Spec.NodeName = ""
	c.tolerate(&p.Spec)
	p.OwnerReferences = []metav1.OwnerReference{{Controller: ptr.To(true)}}
	return c.complete(p, c.claims.ConvertPod(p)), p
}

// tolerate adds the tolerations that the admission plugin ExtendedResourceToleration adds at creation, as on GKE: for
// each requested extended resource, one of the taint with the resource's name. It adds none where an existing pod
// requests an extended resource without the toleration: the plugin is off then.
func (c *cluster) tolerate(spec *corev1.PodSpec) {
	names := extended(spec)
	if c.tolerated == nil && len(names) > 0 {
		c.tolerated = ptr.To(!slices.ContainsFunc(c.pods, func(p *corev1.Pod) bool {
			return slices.ContainsFunc(extended(&p.Spec), func(name string) bool { return !slices.Contains(p.Spec.Tolerations, tolerationOf(name)) })
		}))
	}
	for _, name := range names {
		if *c.tolerated {
			spec.Tolerations = append(spec.Tolerations, tolerationOf(name))
		}
	}
}

func tolerationOf(resource string) corev1.Toleration {
	return corev1.Toleration{Key: resource, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
}

// extended returns the extended resources that containers request, sorted.
func extended(spec *corev1.PodSpec) (names []string) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if strings.Contains(string(name), "/") && !strings.Contains(string(name), "kubernetes.io/") {
					names = append(names, string(name))
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// prioritize gives a pod its priority class, else the default class, and the priority of that class. Quotas may depend
// on the class.
func (c *cluster) prioritize(spec *corev1.PodSpec) {
	i := slices.IndexFunc(c.classes.Items, func(c schedulingv1.PriorityClass) bool {
		return c.Name == spec.PriorityClassName || spec.PriorityClassName == "" && c.GlobalDefault
	})
	if i >= 0 && spec.Priority == nil {
		spec.PriorityClassName, spec.Priority = c.classes.Items[i].Name, &c.classes.Items[i].Value
	}
}

// podsOf returns the pods that request GPUs, the pods bound to a GPU node, and the pods still to be
// created. Pods that have ended are left out.
func (c *cluster) podsOf() []plan.Pod {
	all := make([]gangs.Pod, len(c.pods))
	var planned []int // few, in most clusters
	for i, p := range c.pods {
		all[i].Pod = p
		if bound := p.Spec.NodeName != ""; !kube.IsOver(p) && (bound && c.facts[p.Spec.NodeName] != nil || !bound && p.DeletionTimestamp == nil) {
			planned = append(planned, i)
		}
	}
	out := make([]plan.Pod, 0, len(planned)) // never reallocated: all has pointers into it
	for _, i := range planned {
		p := c.pods[i]
		pod := c.complete(p, c.converted(p))
		if pod.Demand.Zero() && pod.Unreadable == "" && c.claims.watches(p) {
			c.watching[pod.Key()] = true
		}
		if pod.Unschedulable && pod.Demand.Zero() && pod.Unreadable == "" {
			pod.Unreadable = unserved(&pod)
		}
		if pod.Node == "" && pod.Demand.Zero() && pod.Unreadable == "" {
			continue
		}
		out, c.objects = append(out, pod), append(c.objects, p)
		all[i].Plan = &out[len(out)-1]
	}
	c.limit(out, c.objects)
	joined := gangs.Join(gangs.Input{Pods: all, Objects: c.foreign, HPAs: c.hpas.Items, Convert: c.template})
	unmade := joined.Unmade
	c.consumers = joined.Consumers
	for namespace, n := range joined.LeftOut {
		c.over.add(namespace, LimitUnmade, n)
	}
	c.apart = c.apartOutside()
	for i := range all {
		if p := all[i].Plan; p != nil {
			p.Groups = slices.Concat(c.rules.in(p.Namespace, all[i].Labels), p.Groups)
			p.Tenant = c.tenant(&all[i])
			if of := p.Namespace + "/" + all[i].Workload; all[i].Workload != "" {
				if c.members[of] == nil {
					c.members[of] = map[string]bool{}
				}
				c.members[of][p.Key()] = true
			}
		}
	}
	for i := range unmade {
		u := unmade[i].Plan
		if c.constrain(u); len(u.Spread)+len(u.Apart)+len(u.Near) > 0 && c.rules.over(u.Namespace) {
			c.overGroups(u)
		}
	}
	refused := c.ledger.Refuse(unmade, out)
	for i := range unmade {
		u := unmade[i].Plan
		kind, _, _ := strings.Cut(u.Owner, "/")
		if _, byHPA := foreign.Scalable[kind]; byHPA && refused[i] == "" && c.now.Sub(u.PendingSince) > unmadeExpires {
			continue
		}
		if u.Unreadable == "" {
			u.Groups = slices.Concat(c.rules.in(u.Namespace, unmade[i].Labels), u.Groups)
		}
		u.Tenant = cmp.Or(refused[i], c.tenant(&unmade[i]))
		out = append(out, *u)
	}
	for i := range out { // it quotes what users write, and is in Events, logs and on terminals
		out[i].Unreadable = text.Line(out[i].Unreadable)
	}
	return out
}

// converted returns the planner's view of a pod. It is cached, except for a pod with resource claims or with GPUs that
// KAI shares: that demand may change while the pod does not.
func (c *cluster) converted(p *corev1.Pod) plan.Pod {
	if len(p.Spec.ResourceClaims) > 0 || len(demand.KAIGroups(p.Labels)) > 0 {
		return c.claims.ConvertPod(p)
	}
	return *c.kept.get(p, func() plan.Pod { return c.claims.ConvertPod(p) })
}

// accelerators are beginnings and ends of words in the names of extended resources that are devices, in any dialect:
// also AWS' Neuron, Intel's Gaudi, KubeVirt's GPUs, and what HAMi 2.9 divides of other makers.
var accelerators = []string{"gpu", "tpu", "npu", "xpu", "gcu", "mlu", "dcu", "grid", "tesla", "accelerator", "ascend", "neuron", "gaudi",
	"vastaitech", "qaic", "furiosa", "rebellions", "tenstorrent", "cpx", "dpx", "qpx", "spx"}

// noSuchDevice is why no node is added for a device that isDevice reports and no dialect knows.
const noSuchDevice = "gpuscale knows no such device, and adds no node for it"

// isDevice reports whether an extended resource or a DRA driver has the name of an accelerator of any kind.
func isDevice(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.ContainsFunc(accelerators, func(a string) bool { return strings.HasPrefix(word, a) || strings.HasSuffix(word, a) })
	})
}

// unserved returns why no node is added for a pending pod: it requests a device that no dialect knows. It is empty
// for any other pod.
func unserved(p *plan.Pod) string {
	if i := slices.IndexFunc(p.Others, func(r plan.Resource) bool { return isDevice(r.Name) }); i >= 0 {
		return "resource " + p.Others[i].Name + ": " + noSuchDevice
	}
	return ""
}

// tenant returns the quota that a pod counts towards.
func (c *cluster) tenant(p *gangs.Pod) string {
	return c.ledger.Tenant(p, func() string { return c.modelOf(p.Plan) })
}

// models returns the models of the nodes' GPUs.
func (c *cluster) models() []string {
	out := map[string]bool{}
	for _, f := range c.facts {
		out[c.modelOn(f)] = true
	}
	delete(out, "")
	return slices.Collect(maps.Keys(out))
}

// modelOn returns the model of a node's GPUs: without feature discovery, as on GKE, that of its pool.
func (c *cluster) modelOn(f *nodeFacts) string {
	if f.model != "" {
		return f.model
	}
	return c.onlyModel(func(p *plan.Pool) bool { return p.Name == f.Labels[v1alpha1.NodePoolLabel] })
}

// onlyModel returns the model of the GPUs of these pools, empty where they have several.
func (c *cluster) onlyModel(of func(*plan.Pool) bool) (model string) {
	for i := range c.claims.pools {
		switch p := &c.claims.pools[i]; {
		case len(p.Template.GPUs) == 0 || !of(p):
		case model != "" && model != p.Template.GPUs[0].Model.Name:
			return ""
		default:
			model = p.Template.GPUs[0].Model.Name
		}
	}
	return model
}

// modelOf returns the GPU model of a pod's node. For a pending pod it returns the only model that it requests, by the
// product that it names or the pools whose nodes it selects; empty if there are several.
func (c *cluster) modelOf(p *plan.Pod) string {
	if f := c.facts[p.Node]; f != nil {
		return c.modelOn(f)
	}
	if model, ok := gpu.ParseProduct(p.NodeSelector[partition.ProductLabel]); ok {
		return model.Name
	}
	ofProduct := func(of []plan.NodeTerm) bool { return of[0][0].Key == partition.ProductLabel }
	if len(p.NodeSelector)+len(p.Affinity) == 0 && !slices.ContainsFunc(p.Devices, ofProduct) {
		return ""
	}
	return c.onlyModel(func(of *plan.Pool) bool { return plan.Admits(*p, "", of.Template.Labels, nil) })
}

// version identifies what determines the meaning of extended resources.
func (c *Claims) version() string {
	var b strings.Builder
	fmt.Fprint(&b, c.parts)
	for _, name := range slices.Sorted(maps.Keys(c.classes)) {
		class := c.classes[name]
		b.WriteString(name + "\x00" + string(class.UID) + "\x00" + class.ResourceVersion + "\x00")
	}
	return b.String()
}

// perVersion caches what objects were converted to, by resourceVersion: of thousands of objects few change between
// reconciles. Reconciles share the cached values. Copy a value before writing to its fields.
type perVersion[T any] struct {
	classes   string // the version of Claims
	last, now map[version]*T
}

type version struct {
	uid types.UID
	of  string // resourceVersion
}

// begin starts a reconcile. It drops what the last reconcile did not use, and everything if the device classes have
// changed.
func (k *perVersion[T]) begin(c *Claims) {
	k.last, k.now = k.now, make(map[version]*T, len(k.now))
	if classes := c.version(); classes != k.classes {
		k.classes, k.last = classes, nil
	}
}

// get returns an object's conversion. An object without a UID or a resourceVersion is converted each time.
func (k *perVersion[T]) get(o metav1.Object, read func() T) *T {
	key := version{o.GetUID(), o.GetResourceVersion()}
	is := k.last[key]
	if is == nil {
		is = ptr.To(read())
	}
	if key.uid != "" && key.of != "" {
		k.now[key] = is
	}
	return is
}
