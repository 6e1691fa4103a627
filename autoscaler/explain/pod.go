package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

// ErrNotFound marks a subject that the snapshot does not have.
var ErrNotFound = errors.New("not found")

// ErrNotPending marks a pod or gang that does not wait for anything.
var ErrNotPending = errors.New("not pending")

// ForPod explains a pod, "namespace/name".
func ForPod(s plan.Snapshot, p plan.Policy, name string) (Document, error) {
	i := slices.IndexFunc(s.Pods, func(q plan.Pod) bool { return q.Key() == name })
	switch {
	case !strings.Contains(name, "/"):
		return Document{}, fmt.Errorf("pod %q: want NAMESPACE/NAME", name)
	case i < 0:
		return Document{}, fmt.Errorf("pod %s: %w in the autoscaler's last snapshot: there is no such pod, it asks for no GPU, it has ended, or it was made since; "+
			"\"kubectl get pod -n %s %s\" tells which%s", name, ErrNotFound, before(name), after(name), alike(s, name))
	case s.Pods[i].Node != "":
		return Document{}, fmt.Errorf("pod %s: %w: it is bound to node %s, so nothing is decided about where it runs", name, ErrNotPending, s.Pods[i].Node)
	}
	e, ok := plan.Explain(s, p, name)
	if !ok {
		return Document{}, fmt.Errorf("pod %s: %w", name, ErrNotPending)
	}
	d := Document{APIVersion: Version, Kind: "Pod", Subject: name}
	d.pod(s, p, e)
	return d, nil
}

// ForGang explains a gang, "namespace/name": the gang's answer and its members',
// and the options of the member at which it was decided.
func ForGang(s plan.Snapshot, p plan.Policy, name string) (Document, error) {
	known := slices.ContainsFunc(s.Pods, func(q plan.Pod) bool { return q.Gang == name })
	if !known {
		return Document{}, fmt.Errorf("gang %s: %w in the autoscaler's last snapshot%s", name, ErrNotFound, gangsOf(s))
	}
	e, ok := plan.ExplainGang(s, p, name)
	if !ok {
		return Document{}, fmt.Errorf("gang %s: %w: all its members run", name, ErrNotPending)
	}
	d := Document{APIVersion: Version, Kind: "Gang", Subject: name}
	d.pod(s, p, e)
	if v, ok := verdictOf(e.Plan, plan.KindGang, name); ok {
		d.Answer = answer(v.Reason, v.Detail)
	}
	for _, running := range []bool{false, true} {
		for i := range s.Pods {
			q := &s.Pods[i]
			if q.Gang != name || (q.Node != "") != running {
				continue
			}
			v, _ := verdictOf(e.Plan, plan.KindPod, q.Key())
			d.Members = append(d.Members, Subject{q.Key(), string(v.Reason), v.Detail})
		}
	}
	return d, nil
}

// pod fills in what is about one pod.
func (d *Document) pod(s plan.Snapshot, p plan.Policy, e plan.Explanation) {
	key := e.Pod.Key()
	d.At, d.Answer = s.Now.UTC(), answer(e.Verdict.Reason, e.Verdict.Detail)
	d.Pod = &Pod{
		Name: key, Wants: e.Wants, Cards: e.Weight, Priority: e.Pod.Priority, Rank: e.Rank, Waiting: e.Waiting,
		Tenant: e.Pod.Tenant, Borrows: e.Borrowed, Gang: e.Pod.Gang, GangMin: e.Pod.GangMin,
	}
	if since := e.Pod.PendingSince; !since.IsZero() {
		d.Pod.Waits = max(s.Now.Sub(since).Seconds(), 0)
	}
	d.Options = optionsOf(s, e)
	d.Actions = actionsWhere(e.Plan, func(a plan.Action) bool { return slices.Contains(a.For, key) })
	if e.Pod.Gang != "" && e.Verdict.Reason == plan.GangWaits { // decided at another member, maybe
		e, _ = plan.ExplainGang(s, p, e.Pod.Gang)
	}
	d.Changes, d.Tried = changes(s, p, e)
}

func optionsOf(s plan.Snapshot, e plan.Explanation) []Option {
	won := slices.IndexFunc(e.Options, func(o plan.Option) bool { return o.Chosen })
	out := make([]Option, len(e.Options))
	for i, o := range e.Options {
		out[i] = Option{Kind: string(o.Kind), On: o.On, Possible: o.Possible, Chosen: o.Chosen, Reason: string(o.Reason), Detail: o.Detail}
		if o.Possible {
			out[i].Cost, out[i].In = number(o.Cost), number(max(o.At.Sub(s.Now), 0).Seconds())
		}
		if o.Possible && !o.Chosen {
			out[i].Lost = lost(e, o, won)
		}
	}
	return out
}

// lost says why a possible option was not taken.
func lost(e plan.Explanation, o plan.Option, won int) string {
	if won < 0 {
		switch e.Verdict.Reason {
		case plan.QuotaExceeded:
			return "its quota does not admit the pod, so nothing is taken"
		case plan.GangWaits, plan.GangIncomplete:
			return "the gang gets all or nothing, and does not get all"
		case plan.BoundReached:
			return "the round's actions are used up; the next round looks again"
		}
		return "nothing is done for the pod now: " + string(e.Verdict.Reason)
	}
	w := e.Options[won]
	switch {
	case w.Kind == plan.OptionFree:
		return "what is free goes first"
	case o.Cost > w.Cost:
		return fmt.Sprintf("costs %.2f more than %s", o.Cost-w.Cost, nameOf(w))
	case w.Kind == plan.OptionNode && o.Kind == plan.OptionNode:
		return "a node that is on its way already is used first"
	case o.Kind == plan.OptionNode:
		return "costs no less, or a new node would have to be cut first as well"
	}
	return "costs no less than " + nameOf(w) + ", which changes less"
}

func nameOf(o plan.Option) string {
	name := map[plan.OptionKind]string{
		plan.OptionFree: "what is free", plan.OptionWait: "waiting for", plan.OptionRepartition: "cutting",
		plan.OptionReclaim: "taking back what was lent on", plan.OptionNode: "a node of",
	}[o.Kind]
	return strings.TrimSpace(name + " " + o.On)
}

func before(key string) string { ns, _, _ := strings.Cut(key, "/"); return ns }
func after(key string) string  { _, name, _ := strings.Cut(key, "/"); return name }

// mostNames bounds what is offered to who asks for what is not there.
const mostNames = 5

// alike offers pods of the namespace that wait.
func alike(s plan.Snapshot, name string) string {
	var names []string
	for i := range s.Pods {
		if q := &s.Pods[i]; q.Node == "" && q.Namespace == before(name) {
			names = append(names, q.Key())
		}
	}
	return offered("; of its namespace these wait: ", names)
}

func gangsOf(s plan.Snapshot) string {
	var names []string
	for i := range s.Pods {
		if g := s.Pods[i].Gang; g != "" {
			names = append(names, g)
		}
	}
	return offered("; it has: ", names)
}

func offered(words string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	names = slices.Compact(names)
	more := ""
	if len(names) > mostNames {
		more = fmt.Sprintf(" and %d more", len(names)-mostNames)
	}
	return words + strings.Join(names[:min(len(names), mostNames)], ", ") + more
}
