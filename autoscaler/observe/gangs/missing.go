package gangs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// making are the kinds that create pods by themselves. The demand of a Deployment is its HPA's.
var making = []foreign.Kind{foreign.KueueWorkload, foreign.VolcanoJob, foreign.LeaderWorkerSet, foreign.JobSet,
	foreign.PyTorchJob, foreign.TFJob, foreign.MPIJob, foreign.XGBoostJob, foreign.PaddleJob, foreign.JAXJob, foreign.ProvisioningRequest}

// makeMissing adds the pods that makers have not created yet.
func (j *joiner) makeMissing() {
	for _, k := range making {
		for _, o := range j.in.Objects.Sorted(k) {
			if o.Maker == nil {
				continue
			}
			if group := j.groupOfMaker(o); group != nil {
				j.made[group] = true
			}
			if o.Maker.Over || j.kueue.inactive(o) || o.DeletionTimestamp != nil {
				continue
			}
			if k != foreign.KueueWorkload && j.kueue.workloadFor(o) != nil {
				continue // its Workload stands for it
			}
			if j.unseen(o) || k == foreign.ProvisioningRequest && j.Consumers[o.Namespace+"/"+o.Name] != nil {
				continue
			}
			if k != foreign.KueueWorkload && j.in.Objects.Get(foreign.KueueLocalQueue.Of(o.Namespace, o.Labels[foreign.KueueQueueLabel])) != nil {
				continue // Kueue has not created its Workload yet
			}
			j.makeSets(o)
		}
	}
}

func (j *joiner) makeSets(o *foreign.Object) {
	of := o.Key()
	like := make([]*Pod, len(o.Maker.Roles)) // the same for all sets
	for set := range o.Maker.Sets {
		used := j.spent[o.Namespace]
		if used.sets++; used.sets > maxUnmade || used.pods >= maxUnmade {
			j.LeftOut[o.Namespace] += o.Maker.Sets - set
			return
		}
		j.spent[o.Namespace] = used
		var g *gang
		// Pods that name no role take any place.
		anywhere := j.live[place{of, set, ""}] + j.done[place{of, set, ""}]
		for r := range o.Maker.Roles {
			role := &o.Maker.Roles[r]
			at := place{of, set, role.Name}
			missing := role.Count - max(role.Done, j.done[at])
			if role.Name != "" {
				missing -= j.live[at]
			}
			took := min(anywhere, max(missing, 0))
			anywhere -= took
			if missing -= took; missing <= 0 {
				continue
			}
			if g == nil {
				g = j.ofSet(setOf{of, set})
			}
			if like[r] == nil || o.Maker.Exclusive != "" && set < maxExclusive {
				t := j.kueue.admitted(role, o.Maker)
				if o.Maker.Exclusive != "" {
					*t = foreign.Exclusive(*t, o.Maker.Exclusive, lwsGroupKey, o.Namespace, o.Name+"-"+strconv.Itoa(set))
				}
				like[r] = j.shapeOf(o, t, cmp.Or(o.Maker.Admitted, o.CreationTimestamp))
				j.near(like[r].Plan, role.Near, groupOfRole(o, role))
			}
			stem := o.Name
			if o.Maker.Sets > 1 {
				stem += "-" + strconv.Itoa(set)
			}
			if role.Name != "" {
				stem += "-" + role.Name
			}
			from := len(j.Unmade)
			j.make(g, missing, stem, like[r])
			for i := range j.Unmade[from:] { // the last of the role
				for _, s := range role.Slices {
					if n := (role.Count - missing + i) / s.Size; n < maxExclusive {
						j.near(j.Unmade[from+i].Plan, s.Near, fmt.Sprintf("role %s/%s/%s %d by %s", o.Namespace, o.Name, role.Name, n, s.Label))
					}
				}
			}
		}
	}
}

// groupOfRole names the group of pods that share the place of a role.
func groupOfRole(o *foreign.Object, role *foreign.Role) string {
	if role.Together != "" {
		return "roles " + o.Namespace + "/" + o.Name + "/" + role.Together
	}
	return "role " + o.Namespace + "/" + o.Name + "/" + role.Name
}

// maxExclusive bounds the sets with a place of their own, which are looked at one by one. A namespace with more has more
// groups of pods than are planned for.
const maxExclusive = 1000

// near adds that a pod is near the others of a group.
func (j *joiner) near(p *plan.Pod, by foreign.Near, group string) {
	label := by.Label
	if topology := j.in.Objects.Get(foreign.KAITopology.Of("", by.Topology)); topology != nil {
		label = cmp.Or(topology.Levels[label], label)
	}
	if label != "" {
		p.Near = append(slices.Clip(p.Near), plan.Rule{Key: label, Group: group})
		p.Groups = append(slices.Clip(p.Groups), group)
	}
}

// shapeOf converts a template of an object, once for all pods created from it.
func (j *joiner) shapeOf(o *foreign.Object, t *corev1.PodTemplateSpec, since metav1.Time) *Pod {
	p, object := j.in.Convert(o.Namespace, t)
	p.Namespace, p.Node = o.Namespace, ""
	p.Owner = o.Kind.Owner() + "/" + o.Name
	p.Created, p.PendingSince = o.CreationTimestamp.Time, since.Time
	p.Unmade, p.Unschedulable, p.Evictable = true, true, true
	u := &Pod{Pod: object, Plan: &p}
	if o.Kind == foreign.KueueWorkload {
		u.Workload = o.Name
	}
	return u
}

// make adds n pods that are still to be created to a gang, nil for none. Those that request no GPU
// are only counted.
func (j *joiner) make(g *gang, n int, stem string, like *Pod) {
	u, namespace := *like, like.Plan.Namespace
	if u.Plan.Demand.Zero() && u.Plan.Unreadable == "" {
		if g != nil {
			g.plain += n
		}
		return
	}
	if g != nil && g.group != nil {
		u.PodGroup = g.group.Name
	}
	used := j.spent[namespace]
	if most := maxUnmade - used.pods; n > most {
		j.LeftOut[namespace] += n - most
		n = most
	}
	used.pods += n
	j.spent[namespace] = used
	for range n {
		p := *like.Plan
		p.Name = j.name(namespace, stem)
		u.Plan = &p
		if g != nil {
			g.coming = append(g.coming, len(j.Unmade))
		}
		j.Unmade = append(j.Unmade, u)
	}
}

// name returns a name that no pod can have: Kubernetes forbids the tilde.
func (j *joiner) name(namespace, stem string) string {
	key := namespace + "/" + stem
	j.names[key]++
	return stem + "~" + strconv.Itoa(j.names[key]-1)
}

// atOnce are APIs whose objects create all their pods at once, whether these fit or not. So members of their PodGroup
// that do not exist are not about to be created: KubeRay leaves a suspended RayCluster's PodGroup as it was, and
// Volcano a suspended Job's (KubeRay 1.7.0, Volcano 1.15.1; 2026-11).
var atOnce = []string{"", "apps", "batch", "ray.io"}

// createsAtOnce reports whether a PodGroup is owned by such an object.
func createsAtOnce(o *foreign.Object) bool {
	return slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool {
		of, err := schema.ParseGroupVersion(r.APIVersion)
		return err == nil && slices.Contains(atOnce, of.Group)
	})
}

// fillGroups adds to each PodGroup the members that neither exist nor have a maker. They look like the
// existing members where those have one owner; else each requests an equal part of the PodGroup's minimum
// resources.
func (j *joiner) fillGroups() {
	for _, k := range groupKinds {
		for _, o := range j.in.Objects.Sorted(k) {
			if o.Group == nil || o.DeletionTimestamp != nil || j.made[o] || createsAtOnce(o) {
				continue
			}
			g := j.ofGroup(o)
			if g == nil {
				continue
			}
			missing := g.min - g.size() - g.ended
			if missing <= 0 {
				continue
			}
			var t *corev1.PodTemplateSpec
			switch {
			case g.like != nil && !g.mixed && g.plain == 0:
				t = &corev1.PodTemplateSpec{ObjectMeta: g.like.ObjectMeta, Spec: g.like.Spec}
			case g.size() == 0 && len(o.Group.Needs) > 0:
				t = part(o.Group.Needs, g.min)
			default:
				continue // the shape of the missing members is unknown
			}
			j.make(g, missing, o.Name, j.shapeOf(o, t, o.CreationTimestamp))
		}
	}
}

// part returns a pod that requests an equal part of a list, rounded up.
func part(needs corev1.ResourceList, n int) *corev1.PodTemplateSpec {
	list := corev1.ResourceList{}
	for name, q := range needs {
		plain := corev1.ResourceName(strings.TrimPrefix(string(name), corev1.DefaultResourceRequestsPrefix))
		if _, both := needs[plain]; both && plain != name || strings.HasPrefix(string(name), "limits.") || strings.HasPrefix(string(name), "count/") || name == "pods" {
			continue
		}
		if q.Sign() < 0 {
			continue
		}
		if q.CmpInt64(mostOfAnything) > 0 { // Value would overflow
			q.Set(mostOfAnything)
		}
		if plain == corev1.ResourceCPU {
			list[plain] = *resource.NewMilliQuantity((q.MilliValue()+int64(n)-1)/int64(n), q.Format)
		} else {
			list[plain] = *resource.NewQuantity((q.Value()+int64(n)-1)/int64(n), q.Format)
		}
	}
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "member", Resources: corev1.ResourceRequirements{Requests: list},
	}}}}
}

// mostOfAnything bounds a PodGroup's resources; it fits an int64 in thousandths too, twice over.
const mostOfAnything = math.MaxInt64 / 2000

// finish records the gangs in the pods. Members that request no GPU and members that have ended are
// subtracted from the minimum: the planner sees only the others.
func (j *joiner) finish() {
	for _, g := range j.gangs {
		least := max(g.min-g.plain-max(g.ended, g.done), 1)
		together := func(p *plan.Pod) {
			p.Gang, p.GangMin = g.name, least
			if g.group != nil {
				j.near(p, g.group.Group.Near, "gang "+g.name)
			}
		}
		for _, p := range g.members {
			together(p)
			if len(g.coming) > 0 && p.Node == "" {
				p.Unschedulable = true // pending until the missing members exist
			}
		}
		for _, i := range g.coming {
			together(j.Unmade[i].Plan)
			inNodePool(j.Unmade[i].Plan, g.group)
		}
	}
}

// scaled adds the replicas that HPAs request and that do not exist yet: a pod that a quota refuses
// is visible nowhere else.
func (j *joiner) scaled() {
	var have map[foreign.Key]int
	order := slices.SortedFunc(slices.Values(j.in.HPAs), func(a, b autoscalingv2.HorizontalPodAutoscaler) int { // the first gets what a quota leaves
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for i := range order {
		h := &order[i]
		ref := h.Spec.ScaleTargetRef
		of := foreign.Scalable[ref.Kind].Of(h.Namespace, ref.Name)
		o := j.in.Objects.Maker(of)
		if o == nil || !strings.HasPrefix(ref.APIVersion, "apps/") || o.Maker.Over || !acts(h) || len(o.Maker.Roles) != 1 {
			continue
		}
		if have == nil {
			have = j.replicas()
		}
		missing := min(int(h.Status.DesiredReplicas), int(h.Spec.MaxReplicas)) - have[of]
		if missing <= 0 {
			continue
		}
		have[of] += missing // a second HPA on it requests the same ones
		since := h.CreationTimestamp
		if h.Status.LastScaleTime != nil {
			since = *h.Status.LastScaleTime
		}
		j.make(nil, missing, o.Name, j.shapeOf(o, &o.Maker.Roles[0].Template, since))
	}
}

// acts reports whether an HPA's desired replicas are current: an HPA without metrics keeps an old
// number.
func acts(h *autoscalingv2.HorizontalPodAutoscaler) bool {
	return h.DeletionTimestamp == nil && !slices.ContainsFunc(h.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse
	})
}

// replicas counts the pods of Deployments and StatefulSets.
func (j *joiner) replicas() map[foreign.Key]int {
	out := map[foreign.Key]int{}
	for i := range j.in.Pods {
		p := j.in.Pods[i].Pod
		kind, name, _ := strings.Cut(kube.Owner(p), "/")
		if of, ok := foreign.Scalable[kind]; ok && !kube.IsOver(p) && p.DeletionTimestamp == nil {
			out[of.Of(p.Namespace, name)]++
		}
	}
	return out
}
