package gangs

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// joiner is the state of one Join.
type joiner struct {
	Joined
	in    Input
	kueue kueue
	owned map[owner]*foreign.Object // PodGroups
	made  map[*foreign.Object]bool  // PodGroups of makers, which know what they have not created yet
	gangs map[string]*gang
	seen  map[foreign.Key]bool // makers with pods, live or done
	live  map[place]int
	done  map[place]int
	sets  map[setOf]*gang
	names map[string]int // of unmade pods, by what they begin with
	spent map[string]spent
}

// spent is what one namespace has used of maxUnmade: each namespace has its own.
type spent struct{ pods, sets int }

// owner of a PodGroup or a Workload: an object of its namespace.
type owner struct {
	namespace string
	uid       types.UID
}

// setOf is one set of a maker.
type setOf struct {
	maker foreign.Key
	set   int
}

// gang is one gang while Join runs.
type gang struct {
	name    string
	group   *foreign.Object // nil where no PodGroup gives the minimum
	min     int
	members []*plan.Pod // existing members that request GPUs
	plain   int         // members, existing or to be created, that request none
	ended   int         // of those that exist
	done    int         // that have ended, as their maker counts them
	coming  []int       // indices of unmade
	like    *corev1.Pod
	mixed   bool // its members have several owners
}

func (g *gang) size() int { return len(g.members) + g.plain + len(g.coming) }

func newJoiner(in Input) *joiner {
	j := &joiner{
		in: in, Joined: Joined{LeftOut: map[string]int{}, Consumers: map[string]map[string]bool{}}, kueue: newKueue(in.Objects), owned: map[owner]*foreign.Object{}, made: map[*foreign.Object]bool{},
		gangs: map[string]*gang{}, seen: map[foreign.Key]bool{}, live: map[place]int{}, done: map[place]int{}, sets: map[setOf]*gang{}, names: map[string]int{}, spent: map[string]spent{},
	}
	for _, k := range groupKinds {
		for _, o := range in.Objects[k] {
			for i := range o.OwnerReferences {
				if of := (owner{o.Namespace, o.OwnerReferences[i].UID}); o.Group != nil && of.uid != "" && j.owned[of] == nil {
					j.owned[of] = o
				}
			}
		}
	}
	j.consume()
	return j
}

// consume finds the ProvisioningRequests that pods or templates of pods use.
func (j *joiner) consume() {
	if len(j.in.Objects[foreign.ProvisioningRequest]) == 0 {
		return
	}
	note := func(namespace, pod string, annotations map[string]string) {
		name := annotations[consumesAnnotation]
		if name == "" {
			return
		}
		request := namespace + "/" + name
		if j.Consumers[request] == nil {
			j.Consumers[request] = map[string]bool{}
		}
		if pod != "" {
			j.Consumers[request][namespace+"/"+pod] = true
		}
	}
	for i := range j.in.Pods {
		if p := j.in.Pods[i].Pod; !kube.IsOver(p) {
			note(p.Namespace, p.Name, p.Annotations)
		}
	}
	for _, objects := range j.in.Objects {
		for _, o := range objects {
			for i := 0; o.Maker != nil && i < len(o.Maker.Roles); i++ {
				note(o.Namespace, "", o.Maker.Roles[i].Template.Annotations)
			}
		}
	}
}

// places returns what the pods were created for. Where one pod of a set names a PodGroup, the set's
// other pods, existing or to be created, belong to it too. Of several the first in order wins, so
// that the order of the pods does not matter.
func (j *joiner) places() []place {
	out := make([]place, len(j.in.Pods))
	if !slices.ContainsFunc(making, func(k foreign.Kind) bool { return len(j.in.Objects[k]) > 0 }) {
		return out // no maker: pod labels need not be read
	}
	named := map[setOf]*foreign.Object{}
	for i := range j.in.Pods {
		p := j.in.Pods[i].Pod
		out[i] = j.placeOf(p)
		of := groupOf(p)
		group := j.in.Objects.Group(of)
		if group == nil || out[i].maker.Name == "" {
			continue
		}
		set := setOf{out[i].maker, out[i].set}
		if had := named[set]; had == nil || before(group, had) {
			named[set] = group
		}
	}
	for set, group := range named {
		if g := j.ofGroup(group); g != nil {
			j.sets[set] = g
		}
	}
	return out
}

// before orders PodGroups: by the order of groupKinds, then by name.
func before(a, b *foreign.Object) bool {
	return cmp.Or(slices.Index(groupKinds, a.Kind)-slices.Index(groupKinds, b.Kind), strings.Compare(a.Name, b.Name)) < 0
}

// add adds a pod that exists.
func (j *joiner) add(p *Pod, at place) {
	over := p.Status.Phase == corev1.PodSucceeded && !j.kueue.startsAgain(at)
	going := p.DeletionTimestamp != nil
	if at.maker.Name != "" {
		switch {
		case over:
			j.seen[at.maker] = true
			j.done[at]++
		case !kube.IsOver(p.Pod) && !going:
			j.seen[at.maker] = true
			j.live[at]++
		}
	}
	if at.maker.Kind == foreign.KueueWorkload {
		p.Workload = at.maker.Name
	}
	of := groupOf(p.Pod)
	p.PodGroup = of.Name
	counts := p.Plan != nil && (!p.Plan.Demand.Zero() || p.Plan.Unreadable != "") && !kube.IsOver(p.Pod)
	if counts {
		j.gated(p, at)
		inNodePool(p.Plan, j.in.Objects.Group(of))
	}
	if counts && p.Plan.Node == "" {
		j.unreadable(p, of)
	}
	g := j.gangOf(of, at)
	switch {
	case g == nil:
		if counts && p.Plan.Node == "" && at.maker.Name == "" && j.orphan(p.Pod) {
			p.Plan.Unschedulable = false
		}
		return
	case over:
		g.ended++
		return
	case kube.IsOver(p.Pod):
		return
	case !counts:
		if !going {
			g.plain++
		}
		return
	}
	g.members = append(g.members, p.Plan)
	if g.group != nil {
		for _, part := range g.group.Group.Parts[p.Labels[kaiSubGroup]] {
			j.near(p.Plan, part.Near, "gang "+g.name+" "+part.Name)
		}
	}
	if g.like != nil && ownerOf(g.like) != ownerOf(p.Pod) || ownerOf(p.Pod) == "" {
		g.mixed = true
	}
	if g.like == nil || p.Name < g.like.Name {
		g.like = p.Pod
	}
	waitForGang(p)
}

// unreadable marks a pending pod whose PodGroup or maker cannot be read: by itself it may be of no use.
func (j *joiner) unreadable(p *Pod, group foreign.Key) {
	for _, of := range []foreign.Key{group, labelled(p.Pod).maker} {
		if o := j.in.Objects.Get(of); o != nil && o.Err != nil && p.Plan.Unreadable == "" {
			p.Plan.Demand, p.Plan.Unreadable = demand.Demand{}, o.Err.Error()
		}
	}
}

// inNodePool requires the nodes that KAI's scheduler considers for a PodGroup: those with the PodGroup's value of the
// node pool label, or those without the label if the PodGroup has none.
func inNodePool(p *plan.Pod, group *foreign.Object) {
	if group == nil || group.Kind != foreign.KAIPodGroup {
		return
	}
	term := plan.NodeTerm{{Key: kaiNodePool, Operator: string(corev1.NodeSelectorOpDoesNotExist)}}
	if pool := group.Labels[kaiNodePool]; pool != "" {
		term[0].Operator, term[0].Values = string(corev1.NodeSelectorOpIn), []string{pool}
	}
	p.Devices = append(slices.Clip(p.Devices), []plan.NodeTerm{term})
}

// waitForGang marks a gang's pending member as unschedulable: a gang's scheduler reports no
// "Unschedulable" for pods that it could place if it could place all of them. A pod with another
// gate is left alone, since no scheduler tries to place it.
func waitForGang(p *Pod) {
	if p.Plan.Node != "" || len(p.Spec.SchedulingGates) > 0 {
		return
	}
	p.Plan.Unschedulable = p.Plan.Unschedulable || slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
	})
}

func ownerOf(p *corev1.Pod) types.UID {
	if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
		return ref.UID
	}
	return ""
}

// gangOf returns the gang of a pod with that PodGroup and place, nil for none: by its PodGroup,
// else by its maker.
func (j *joiner) gangOf(of foreign.Key, at place) *gang {
	if o := j.in.Objects.Group(of); o != nil {
		return j.ofGroup(o)
	}
	if at.maker.Name == "" {
		return nil
	}
	return j.ofSet(setOf{at.maker, at.set})
}

// groupKinds are the kinds of PodGroups, in order of precedence.
var groupKinds = []foreign.Kind{foreign.VolcanoPodGroup, foreign.PluginsPodGroup, foreign.BuiltInPodGroup, foreign.KAIPodGroup}

// ofGroup returns a PodGroup's gang, nil where its pods are useful one by one.
func (j *joiner) ofGroup(o *foreign.Object) *gang {
	if o.Group.Over || o.Group.Min < 1 {
		return nil
	}
	name := o.Namespace + "/" + o.Name
	for _, k := range groupKinds {
		if k == o.Kind {
			break
		}
		if j.in.Objects.Group(k.Of(o.Namespace, o.Name)) != nil { // two systems, one name
			name = o.Namespace + "/" + string(o.Kind) + "/" + o.Name
			break
		}
	}
	g := j.gangs[name]
	if g == nil {
		g = &gang{name: name, group: o, min: o.Group.Min}
		j.gangs[name] = g
	}
	return g
}

// word is a maker's kind in the names of gangs without a PodGroup.
func word(k foreign.Kind) string {
	if k == foreign.LeaderWorkerSet {
		return "lws"
	}
	return strings.ToLower(k.Owner())
}

// NamesOf returns the owner and the gang that pods of a maker have in their plan.
func NamesOf(k foreign.Kind, namespace, name string) (owner, gang string) {
	return k.Owner() + "/" + name, namespace + "/" + word(k) + "/" + name
}

// ofSet returns the gang of one set of a maker, nil where its pods are useful one by one.
func (j *joiner) ofSet(of setOf) *gang {
	if g := j.sets[of]; g != nil {
		return g
	}
	o := j.in.Objects.Maker(of.maker)
	if o == nil || o.Maker.Over || !slices.Contains(making, o.Kind) || o.Annotations[PlainAnnotation] == "false" {
		return nil
	}
	if group := j.groupOfMaker(o); group != nil {
		if g := j.ofGroup(group); g != nil {
			j.sets[of] = g
			return g
		}
	}
	all, done := 0, 0
	for _, r := range o.Maker.Roles {
		all, done = all+r.Count, done+min(r.Done, r.Count)
	}
	least := all
	if o.Maker.Min > 0 {
		least = min(o.Maker.Min, all)
	}
	if least-done < 2 {
		return nil
	}
	name := o.Namespace + "/" + word(o.Kind) + "/" + o.Name
	if o.Kind == foreign.LeaderWorkerSet {
		name += "/" + strconv.Itoa(of.set)
	}
	g := &gang{name: name, min: least, done: done}
	j.gangs[name], j.sets[of] = g, g
	return g
}

// groupOfMaker returns a maker's PodGroup, nil for none. The maker's templates name it, as those of a TrainJob's JobSet
// do, or the maker owns it: Volcano creates one for its Job before any pod refers to it. A maker of several sets
// creates one for each set, which its pods name.
func (j *joiner) groupOfMaker(o *foreign.Object) *foreign.Object {
	for i := range o.Maker.Roles {
		t := &o.Maker.Roles[i].Template
		of := groupOf(&corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: corev1.PodSpec{SchedulingGroup: t.Spec.SchedulingGroup}})
		of.Namespace = o.Namespace
		if group := j.in.Objects.Group(of); group != nil {
			return group
		}
	}
	if o.Maker.Sets != 1 {
		return nil
	}
	return j.owned[owner{o.Namespace, o.UID}]
}
