package plan

// ReasonDoc explains one reason to the person who meets it in an event, a
// condition or an alert.
type ReasonDoc struct {
	Reason   Reason
	Kind     string // "pod", "pool", "node", "card", several separated by ", "
	Meaning  string
	WhatToDo string // empty: nothing
}

// Reasons returns every reason with its explanation, in the order in which
// docs/reasons.md lists them.
func Reasons() []ReasonDoc {
	return append(append(podReasons(), poolReasons()...), nodeReasons()...)
}

func podReasons() []ReasonDoc {
	return []ReasonDoc{
		{WaitScheduler, "pod", "Free cards or slices fit the pod now, or the scheduler has not answered yet. It is left to the scheduler.",
			"If it lasts for minutes, look at the pod's FailedScheduling event: a rule the planner does not know keeps it out (pod affinity, topology spread, a volume's zone)."},
		{WaitUpcomingNode, "pod", "A node that fits the pod is on its way, or was asked for in this round.",
			"Nothing, until the pool's verdict says BackingOff."},
		{WaitRepartition, "pod, node, card", "A card is being cut into the slices wanted, or was asked to be in this round.", ""},
		{NoFreeSlice, "pool", "No free card or slice fits a pending pod, so an action is taken for it.", ""},
		{RepartitionExhausted, "pool, pod", "No card can be cut to serve the pod, or cutting costs more than a node. The detail counts the cards and says what stood against each.",
			"Lower mig.idleAfter or the repartition cooldown, allow more profiles, or let slices be freed."},
		{NoPoolFits, "pod", "No pool's template fits the pod, and no card of a pool may be cut for it. The detail names what the nearest pool lacks.",
			"Compare the pod's selector, tolerations and requests with the pool's template."},
		{PoolAtMax, "pod, pool", "The only pools that fit the pod have reached their maximum.",
			"Raise the pool's max, or wait until something ends."},
		{DemandUnreadable, "pod", "What the pod asks for cannot be read, so nothing is done for it. The detail names the resource and what is wrong with it.",
			"Correct the pod's requests: one way to share cards in a container, amounts that can be, cards of one vendor."},
		{Running, "pod", "The pod is bound to a node.", ""},
	}
}

func poolReasons() []ReasonDoc {
	return []ReasonDoc{
		{Steady, "pool, node", "Nothing to do.", ""},
		{Frozen, "pod, pool", "The policy or the pool is frozen: decisions are shown, nothing is done.",
			"Lift the freeze when the reason for it has gone."},
		{BoundReached, "pod, pool", "The bound on actions or nodes of one round is reached; the next round continues.",
			"If it lasts, raise maxActionsPerRound or maxNodesPerScaleUp."},
		{TooManyUnready, "pod, pool", "More nodes are unready than the policy tolerates. What is seen cannot be trusted, so everything holds.",
			"Bring the nodes back or delete them; look for a failed network or control plane first."},
		{BackingOff, "pod, pool", "The pool's provider fails to deliver: nodes asked for are overdue, or it said so. Nothing more is asked of it for a while; other pools take over.",
			"Look at the provider: quota, stock-outs, a broken image."},
		{CoolingDown, "pod, pool, card", "Something could be done but was done too recently, or a slice has not been idle for long enough. The detail says until when.", ""},
		{AtMin, "pool, node", "The pool is at its minimum; an empty node is kept.", ""},
		{BelowMin, "pool", "The pool is smaller than its minimum and is brought up to it.", ""},
	}
}

func nodeReasons() []ReasonDoc {
	return []ReasonDoc{
		{NodeEmpty, "node", "No pod but those of DaemonSets runs here. The node is given back once it has been empty for the pool's idleAfter, as far as this process has seen it empty: after a restart of the autoscaler that time begins anew.", ""},
		{NodeBusy, "node", "Pods run here, or the node says that it must not be removed.", ""},
		{NodeNeeded, "node", "The node is empty, and pending pods will use it.", ""},
		{NodeUpcoming, "node", "The node is new and not ready yet; it counts as supply that is on its way.", ""},
		{NodeUnready, "node", "The node is not ready and should be by now. It is neither supply nor given back.",
			"Look at the node's conditions; delete it if it will not come back."},
		{NodeCordoned, "node", "Somebody cordoned the node. It is no supply and is left alone.",
			"Uncordon it when the maintenance is over."},
		{HoldersUnknown, "card, node, pod", "Who holds the card is not known, or no longer fresh. It is neither counted as empty nor changed. Of a pod: a card that could be cut for it is there, as soon as somebody says that it is free; another node would not be cut sooner.",
			"Check that the node's exporter runs and is scraped."},
		{CardFree, "card", "Nothing holds the card.", ""},
		{CardHeld, "card", "A pod holds the card or one of its slices.", ""},
		{CardSick, "card", "The node reports the card as broken. It is no supply and is not changed.",
			"Drain the node and have the card looked at."},
		{RepartitionDone, "node", "A repartition has succeeded; the node is released to the scheduler.", ""},
		{RepartitionFailed, "node", "A repartition failed. It is undone and the node is released.",
			"Read the operation's message; often a process on the host still holds the card."},
		{RepartitionOverdue, "node", "A repartition passed its deadline without an answer. It is undone and the node is released.",
			"Look at mig-manager or the agent on the node."},
	}
}
