package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu"
)

// verdicts says one thing about every pod, pool, node and card, sorted by kind
// and subject.
func (w *world) verdicts() []Verdict {
	out := make([]Verdict, 0, 8*len(w.nodes)+len(w.running)+len(w.pending)+len(w.pools))
	for i := range w.nodes {
		if n := &w.nodes[i]; !n.virtual {
			out = append(out, w.nodeVerdict(n))
			for c := range n.Cards {
				out = append(out, w.cardVerdict(n, c))
			}
		}
	}
	for _, p := range w.running {
		out = append(out, Verdict{KindPod, p.Key(), Running, "on " + p.Node})
	}
	for i := range w.pending {
		p := &w.pending[i]
		out = append(out, Verdict{KindPod, p.pod.Key(), p.reason, p.detail})
	}
	for i := range w.pools {
		out = append(out, w.poolVerdict(i))
	}
	slices.SortFunc(out, func(a, b Verdict) int {
		if c := strings.Compare(string(a.Kind), string(b.Kind)); c != 0 {
			return c
		}
		if c := strings.Compare(a.Subject, b.Subject); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(string(a.Reason), string(b.Reason)), strings.Compare(a.Detail, b.Detail))
	})
	return out
}

func (w *world) poolVerdict(i int) Verdict {
	p := &w.pools[i]
	v := Verdict{Kind: KindPool, Subject: p.Name, Reason: Steady}
	size := fmt.Sprintf("%d of %d … %d nodes", p.Size, p.Min, p.Max)
	switch {
	case w.hold == TooManyUnready:
		v.Reason, v.Detail = w.hold, fmt.Sprintf("more than %.0f %% of nodes, and more than %d", 100*w.policy.MaxUnready, w.policy.OKUnready)
	case w.hold != "" || p.Freeze:
		v.Reason, v.Detail = Frozen, size
	case p.action >= 0:
		a := w.actions[p.action]
		v.Reason, v.Detail = a.Reason, fmt.Sprintf("grows from %d to %d", a.From, a.To)
	case p.shrunk > 0:
		v.Reason, v.Detail = NodeEmpty, fmt.Sprintf("gives back %d, %s", p.shrunk, size)
	case p.stop != "":
		v.Reason, v.Detail = p.stop, p.why
	case p.base >= p.Max:
		v.Reason, v.Detail = PoolAtMax, size
	case w.keepsPool(p) == CoolingDown && len(w.removable(i)) > 0:
		v.Reason, v.Detail = CoolingDown, "has an empty node, "+size
	case p.base <= p.Min:
		v.Reason, v.Detail = AtMin, size
	default:
		v.Detail = size
	}
	return v
}

func (w *world) nodeVerdict(n *nodeState) Verdict {
	v := Verdict{Kind: KindNode, Subject: n.name, Reason: Steady}
	if n.pool < 0 {
		v.Detail = "in no pool of ours"
		return v
	}
	if o := n.Operation; o != nil {
		v.Reason, v.Detail = w.operationVerdict(n, o)
		return v
	}
	reason, since := w.emptiness(n)
	v.Reason = reason
	switch reason {
	case NodeEmpty:
		v.Detail = fmt.Sprintf("for %s of %s", short(w.now.Sub(since)), short(w.pools[n.pool].IdleAfter))
		if n.action < 0 && w.keepsPool(&w.pools[n.pool]) == AtMin {
			v.Reason = AtMin
		}
	case NodeBusy:
		v.Detail = count(n.bound, "pod")
		if n.NoScaleDown {
			v.Detail = "says it must not be removed"
		}
	case NodeUpcoming:
		v.Detail = "ready in " + short(n.at.Sub(w.now))
	case NodeUnready:
		v.Detail = "created " + short(w.now.Sub(n.Created)) + " ago"
	}
	return v
}

func (w *world) operationVerdict(n *nodeState, o *Operation) (Reason, string) {
	switch {
	case o.Phase == PhaseSucceeded:
		return RepartitionDone, o.ID
	case o.Phase == PhaseFailed:
		return RepartitionFailed, o.Message
	case w.failed(o):
		return RepartitionOverdue, o.ID
	}
	return WaitRepartition, fmt.Sprintf("%s, ready in %s", o.ID, short(n.at.Sub(w.now)))
}

func (w *world) cardVerdict(n *nodeState, i int) Verdict {
	c := &n.Cards[i]
	v := Verdict{Kind: KindCard, Subject: cardName(n.name, c.Index), Reason: CardHeld}
	free, since := cardFree(c)
	switch {
	case c.Health == gpu.Sick:
		v.Reason = CardSick
	case n.Operation != nil && n.Operation.Card == c.Index:
		v.Reason = WaitRepartition
		if n.Operation.Phase == PhaseSucceeded {
			v.Reason = RepartitionDone
		}
	case n.cut[i] && n.action >= 0:
		v.Reason = WaitRepartition
	case !c.HoldersKnown:
		v.Reason = HoldersUnknown
	case n.cut[i]:
		v.Reason = CoolingDown
	case free:
		v.Reason = CardFree
		if !since.IsZero() {
			v.Detail = "for " + short(w.now.Sub(since))
		}
	case c.MIG:
		v.Detail = heldText(c)
	}
	return v
}

// heldText is "3 of 7 instances".
func heldText(c *Card) string {
	held := 0
	for i := range c.Instances {
		if c.Instances[i].Holder != "" {
			held++
		}
	}
	return fmt.Sprintf("%d of %d instances", held, len(c.Instances))
}
