package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/plan"
)

// ErrNotFound marks a subject that is not in the snapshot.
var ErrNotFound = errors.New("not found")

// ErrNotPending marks a pod or gang that is not pending.
var ErrNotPending = errors.New("not pending")

// ForPod explains a pod, "namespace/name".
func ForPod(s plan.Snapshot, p plan.Policy, name string) (Document, error) {
	i := slices.IndexFunc(s.Pods, func(q plan.Pod) bool { return q.Key() == name })
	namespace, pod, _ := strings.Cut(name, "/")
	switch {
	case !strings.Contains(name, "/"):
		return Document{}, fmt.Errorf("pod %q: want NAMESPACE/NAME", name)
	case i < 0:
		return Document{}, fmt.Errorf("pod %s: %w in the autoscaler's last snapshot: there is no such pod, it requests no GPU, it has ended, or it was created since; "+
			"\"kubectl get pod -n %s %s\" shows which%s", name, ErrNotFound, namespace, pod, list("; pending pods of its namespace: ", s.Pods, func(q *plan.Pod) string {
			if q.Node != "" || q.Namespace != namespace {
				return ""
			}
			return q.Key()
		}))
	case s.Pods[i].Node != "":
		return Document{}, fmt.Errorf("pod %s: %w: it is bound to node %s", name, ErrNotPending, s.Pods[i].Node)
	}
	e, ok := plan.Explain(s, p, name)
	if !ok {
		return Document{}, fmt.Errorf("pod %s: %w", name, ErrNotPending)
	}
	d := Document{APIVersion: Version, Kind: "Pod", Subject: name}
	d.pod(s, p, e)
	return d, nil
}

// ForGang explains a gang, "namespace/name": its verdict and its members', and the options
// of the member that decided its verdict.
func ForGang(s plan.Snapshot, p plan.Policy, name string) (Document, error) {
	known := slices.ContainsFunc(s.Pods, func(q plan.Pod) bool { return q.Gang == name })
	if !known {
		return Document{}, fmt.Errorf("gang %s: %w in the autoscaler's last snapshot%s", name, ErrNotFound, list("; it has: ", s.Pods, func(q *plan.Pod) string { return q.Gang }))
	}
	e, ok := plan.ExplainGang(s, p, name)
	if !ok {
		return Document{}, fmt.Errorf("gang %s: %w: all its members are bound", name, ErrNotPending)
	}
	d := Document{APIVersion: Version, Kind: "Gang", Subject: name}
	d.pod(s, p, e)
	if v := verdictOf(e.Plan, plan.KindGang, name); v.Reason != "" {
		d.Answer = answer(v.Reason, v.Detail)
	}
	for _, running := range []bool{false, true} {
		for i := range s.Pods {
			q := &s.Pods[i]
			if q.Gang != name || (q.Node != "") != running {
				continue
			}
			v := verdictOf(e.Plan, plan.KindPod, q.Key())
			d.Members = append(d.Members, Subject{q.Key(), string(v.Reason), v.Detail})
		}
	}
	return d, nil
}

// pod sets the fields about one pod.
func (d *Document) pod(s plan.Snapshot, p plan.Policy, e plan.Explanation) {
	key := e.Pod.Key()
	d.At, d.Answer = s.Now.UTC(), answer(e.Verdict.Reason, e.Verdict.Detail)
	d.Pod = &Pod{
		Name: key, Requests: e.Requests, GPUs: e.Weight, Priority: e.Pod.Priority, Rank: e.Rank, Waiting: e.Pending,
		Tenant: e.Pod.Tenant, Borrows: e.Borrowed, Gang: e.Pod.Gang, GangMin: e.Pod.GangMin,
	}
	if since := e.Pod.PendingSince; !since.IsZero() {
		d.Pod.Waits = max(s.Now.Sub(since).Seconds(), 0)
	}
	d.Options = optionsOf(s, e)
	d.Actions = actionsWhere(e.Plan, func(a plan.Action) bool { return slices.Contains(a.For, key) })
	if e.Pod.Gang != "" && e.Verdict.Reason == plan.GangWaits { // another member may have decided the verdict
		e, _ = plan.ExplainGang(s, p, e.Pod.Gang)
	}
	d.Changes, d.Tried = changes(s, p, e)
}

func optionsOf(s plan.Snapshot, e plan.Explanation) []Option {
	chosen := slices.IndexFunc(e.Options, func(o plan.Option) bool { return o.Chosen })
	out := make([]Option, len(e.Options))
	for i, o := range e.Options {
		out[i] = Option{Kind: string(o.Kind), On: o.On, Possible: o.Possible, Chosen: o.Chosen, Reason: string(o.Reason), Detail: o.Detail}
		if o.Possible {
			out[i].Cost, out[i].In = Number(o.Cost), Number(max(o.At.Sub(s.Now), 0).Seconds())
		}
		if o.Possible && !o.Chosen {
			out[i].Lost = lost(e, o, chosen)
		}
	}
	return out
}

// lost returns why a possible option was not chosen.
func lost(e plan.Explanation, o plan.Option, chosen int) string {
	if chosen < 0 {
		switch e.Verdict.Reason {
		case plan.QuotaExceeded:
			return "the pod's quota does not admit it"
		case plan.GangWaits, plan.GangIncomplete:
			return "the gang is served as a whole or not at all"
		case plan.BoundReached:
			return "the reconcile has reached its limit of actions; the next one plans again"
		}
		return "no action for the pod now: " + string(e.Verdict.Reason)
	}
	w := e.Options[chosen]
	switch {
	case w.Kind == plan.OptionFree:
		return "free capacity is used first"
	case o.Cost > w.Cost:
		return fmt.Sprintf("costs %.2f more than %s", o.Cost-w.Cost, nameOf(w))
	case w.Kind == plan.OptionNode && o.Kind == plan.OptionNode:
		return "an upcoming node is used first"
	case o.Kind == plan.OptionNode:
		return "costs no less, or the new node would have to be repartitioned as well"
	}
	return "costs no less than " + nameOf(w) + ", which changes less"
}

func nameOf(o plan.Option) string {
	name := map[plan.OptionKind]string{
		plan.OptionFree: "free capacity", plan.OptionWait: "waiting for", plan.OptionRepartition: "repartitioning",
		plan.OptionReclaim: "reclaiming on", plan.OptionNode: "a node of",
	}[o.Kind]
	return strings.TrimSpace(name + " " + o.On)
}

// maxNames bounds the names in an error for an unknown subject.
const maxNames = 5

// list is a head and the names of its parts, without those that have none; empty without any.
func list[T any](head string, all []T, name func(*T) string) string {
	var names []string
	for i := range all {
		if of := name(&all[i]); of != "" {
			names = append(names, of)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return head + text.Several(slices.Compact(names), maxNames)
}
