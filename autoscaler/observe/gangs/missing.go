package gangs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
)

// making are the kinds that make pods by themselves. What a Deployment wants is
// asked of its HPA.
var making = []foreign.Kind{foreign.KueueWorkload, foreign.VolcanoJob, foreign.LeaderWorkerSet, foreign.JobSet}

// makeMissing adds the pods that makers have not made yet.
func (j *joiner) makeMissing() {
	for _, k := range making {
		for _, o := range sorted(j.in.Objects[k]) {
			if o.Maker == nil || o.Maker.Over || o.Maker.Held || o.DeletionTimestamp != nil {
				continue
			}
			if k != foreign.KueueWorkload && j.queued[o.UID] != nil && o.UID != "" {
				continue // its Workload stands for it
			}
			j.makeSets(o)
		}
	}
}

// sorted gives the objects an order, so that the bound cuts the same ones each time.
func sorted(all []*foreign.Object) []*foreign.Object {
	return slices.SortedFunc(slices.Values(all), func(a, b *foreign.Object) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

func (j *joiner) makeSets(o *foreign.Object) {
	of := id{o.Kind, o.Namespace, o.Name}
	for set := range o.Maker.Sets {
		var g *gang
		// Pods that do not say their role take any place.
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
			stem := o.Name
			if o.Maker.Sets > 1 {
				stem += "-" + itoa(set)
			}
			if role.Name != "" {
				stem += "-" + role.Name
			}
			j.make(g, missing, comes{
				object: o, template: prioritized(&role.Template, o.Maker), stem: stem,
				since: cmp.Or(o.Maker.Admitted, o.CreationTimestamp),
			})
		}
	}
}

// comes is what pods that are still to come are like.
type comes struct {
	object   *foreign.Object
	template *corev1.PodTemplateSpec
	stem     string // of their names
	since    metav1.Time
}

// prioritized is a role's template with the priority its maker gives it.
func prioritized(t *corev1.PodTemplateSpec, m *foreign.Maker) *corev1.PodTemplateSpec {
	if m.PriorityClass == "" || t.Spec.PriorityClassName != "" {
		return t
	}
	out := *t
	out.Spec.PriorityClassName, out.Spec.Priority = m.PriorityClass, m.Priority
	return &out
}

// owners are the kinds as people name them.
var owners = map[foreign.Kind]string{
	foreign.KueueWorkload: "Workload", foreign.VolcanoJob: "Job", foreign.LeaderWorkerSet: "LeaderWorkerSet", foreign.JobSet: "JobSet",
	foreign.Deployment: "Deployment", foreign.StatefulSet: "StatefulSet",
	foreign.VolcanoPodGroup: "PodGroup", foreign.PluginsPodGroup: "PodGroup", foreign.BuiltInPodGroup: "PodGroup", foreign.KAIPodGroup: "PodGroup",
}

// make adds n pods that are still to come to a gang, nil for none. Those that want
// no GPU are only counted.
func (j *joiner) make(g *gang, n int, c comes) {
	p := j.in.Convert(c.object.Namespace, c.template)
	if p.Demand.Zero() && p.Unreadable == "" {
		if g != nil {
			g.plain += n
		}
		return
	}
	p.Namespace, p.Node = c.object.Namespace, ""
	p.Owner = owners[c.object.Kind] + "/" + c.object.Name
	p.Created, p.PendingSince = c.object.CreationTimestamp.Time, c.since.Time
	p.Unmade, p.Unschedulable, p.Evictable = true, true, true
	u := Unmade{Pod: p, Template: c.template}
	if c.object.Kind == foreign.KueueWorkload {
		u.Workload = c.object.Name
	}
	if g != nil && g.group != nil {
		u.PodGroup = g.group.Name
	}
	for i := 0; i < n && len(j.unmade) < maxUnmade; i++ {
		u.Name = j.name(p.Namespace, c.stem, i)
		if g != nil {
			g.coming = append(g.coming, len(j.unmade))
		}
		j.unmade = append(j.unmade, u)
	}
}

// name is one that no pod can have, since Kubernetes forbids the tilde.
func (j *joiner) name(namespace, stem string, i int) string {
	for {
		name := stem + "~" + itoa(i)
		if key := namespace + "/" + name; !j.names[key] {
			j.names[key] = true
			return name
		}
		i++
	}
}

// fillGroups adds to each PodGroup the members that neither exist nor have an owner
// that says what they are like: as those that exist, where they all have one owner,
// or an equal part of what the PodGroup says it needs.
func (j *joiner) fillGroups() {
	for _, k := range []foreign.Kind{foreign.VolcanoPodGroup, foreign.PluginsPodGroup, foreign.BuiltInPodGroup, foreign.KAIPodGroup} {
		for _, o := range sorted(j.in.Objects[k]) {
			if o.Group == nil || o.DeletionTimestamp != nil {
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
				continue // nobody knows what is still to come
			}
			j.make(g, missing, comes{object: o, template: t, stem: o.Name, since: o.CreationTimestamp})
		}
	}
}

// part is a pod that wants an equal part of a list, rounded up.
func part(needs corev1.ResourceList, n int) *corev1.PodTemplateSpec {
	list := corev1.ResourceList{}
	for name, q := range needs {
		plain := corev1.ResourceName(strings.TrimPrefix(string(name), corev1.DefaultResourceRequestsPrefix))
		if _, both := needs[plain]; both && plain != name || strings.HasPrefix(string(name), "limits.") || strings.HasPrefix(string(name), "count/") || name == "pods" {
			continue
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

// finish writes the gangs into the pods. Members that want no GPU, and those that
// have ended, are taken off the number that must run together: the planner sees
// only those that do.
func (j *joiner) finish() {
	for _, g := range j.gangs {
		least := max(g.min-g.plain-g.ended, 1)
		for _, p := range g.members {
			p.Gang, p.GangMin = g.name, least
			if len(g.coming) > 0 && p.Node == "" {
				p.Unschedulable = true // it waits for those that are still to come
			}
		}
		for _, i := range g.coming {
			j.unmade[i].Gang, j.unmade[i].GangMin = g.name, least
		}
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
