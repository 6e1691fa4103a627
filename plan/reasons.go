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
	var all []ReasonDoc
	for _, part := range [][]ReasonDoc{podReasons(), gangReasons(), tenantReasons(), forecastReasons(), poolReasons(), nodeReasons(), cardReasons()} {
		all = append(all, part...)
	}
	return all
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
		{PoolFixed, "pod, node", "The only pools that fit the pod are fixed: their machines are all in use, and there are no more to buy. Of a node: it is empty, and stays, since a fixed pool gives none back.",
			"Wait until something ends, or add a machine: a node counts as soon as it has the pool's label."},
		{DemandUnreadable, "pod", "What the pod asks for cannot be read, so nothing is done for it. The detail names the resource and what is wrong with it.",
			"Correct the pod's requests: one way to share cards in a container, amounts that can be, cards of one vendor."},
		{Running, "pod", "The pod is bound to a node.", ""},
		{QuotaExceeded, "pod, gang, tenant", "Its tenant's quota does not admit it: the limit is reached, or all that others lend is in use. Nothing is reserved or bought for it. Of a tenant: more runs than its limit allows.",
			"Raise the tenant's guarantee, limit or borrow limit, or end something of the tenant's."},
		{BorrowedWaits, "pod", "Its tenant has all it is guaranteed and may borrow, but nothing is free, and nodes are not bought for what is borrowed.",
			"Wait until somebody gives something back, raise the guarantee, or set buyBorrowed."},
		{WaitReclaim, "pod", "Pods that hold what its tenant is guaranteed were asked to leave, or are leaving.", ""},
		{PodLeaving, "pod, node", "A pod was asked to leave and still holds what it holds. Of a node: what it frees is promised to pods that wait.", ""},
	}
}

func gangReasons() []ReasonDoc {
	return []ReasonDoc{
		{GangIncomplete, "gang, pod", "Fewer members exist, or are known to be coming, than the gang needs to run. Nothing is done for it.",
			"Look at the job's controller: it has not made all its pods."},
		{GangWaits, "gang, pod", "There is not room for all the members the gang needs, so it gets none and nothing is bought. The detail says for how many there is, and what the next one lacks.",
			"Do what the detail's reason says, or make the gang smaller."},
		{GangServed, "gang", "All the members the gang needs will run: the detail counts what they wait for.", ""},
		{GangRunning, "gang", "As many members as the gang needs are running.", ""},
	}
}

func tenantReasons() []ReasonDoc {
	return []ReasonDoc{
		{WithinGuarantee, "tenant", "The tenant uses no more than it is guaranteed.", ""},
		{Borrowing, "tenant", "The tenant uses more than it is guaranteed: what others lend and do not use. It may have to give that back.", ""},
		{ReclaimBorrowed, "pod", "The pod is asked to leave: its tenant has borrowed what another is guaranteed and now wants. The detail names the pod it is done for.",
			"Raise the tenant's guarantee, or give the pod a higher priority than others of its tenant."},
		{ReclaimIdle, "pod", "The pod is asked to leave: it has held cards without using them for as long as its tenant allows.",
			"Have the workload end by itself, or change the tenant's reclaimIdle."},
	}
}

func forecastReasons() []ReasonDoc {
	return []ReasonDoc{
		{ForecastMet, "forecast", "There is room for what is expected, or no more is expected than there is.", ""},
		{ForecastHeadroom, "forecast, pool", "Room was made in this round for replicas that are expected.", ""},
		{ForecastUnmet, "forecast", "There is no room yet for all that is expected: it is too early, costs more than being late, or cannot be had. The detail says which.", ""},
		{ForecastUnsure, "forecast", "There is no forecast to act on: too few values, too old, or too wide a spread.",
			"Check that the series it is made from is there."},
	}
}

func poolReasons() []ReasonDoc {
	return []ReasonDoc{
		{Steady, "pool, node", "Nothing to do.", ""},
		{Frozen, "pod, pool", "The policy or the pool is frozen: decisions are shown, nothing is done.",
			"Lift the freeze when the reason for it has gone."},
		{BoundReached, "pod, pool, node", "A bound of the policy is reached: on actions or nodes of one round, nodes asked for in an hour, or nodes given back in ten minutes. A later round continues.",
			"If it lasts, look at docs/rails.md for the bound, and raise it."},
		{TooManyUnready, "pod, pool", "More nodes are unready than the policy tolerates. What is seen cannot be trusted, so everything holds.",
			"Bring the nodes back or delete them; look for a failed network or control plane first."},
		{TooManyIdle, "pool, node", "More nodes have come to look idle at about the same time than the policy takes for true, and more than okIdle. Nothing is given back or taken for being idle until idleHold after the last of them; what waits is still served.",
			"Nothing, if a large job has ended. Otherwise look at what reports: exporters, Prometheus, the API server. maxIdleAtOnce: 1 turns this off."},
		{BackingOff, "pod, pool", "The pool's provider fails to deliver: nodes asked for are overdue, or it said so. Nothing more is asked of it for a while; other pools take over.",
			"Look at the provider: quota, stock-outs, a broken image."},
		{CoolingDown, "pod, pool, node, card", "Something could be done but was done too recently, failed lately, or a slice has not been idle for long enough. The detail says until when.", ""},
		{AtMin, "pool, node", "The pool is at its minimum; an empty node is kept, and one that was drained is released.", ""},
		{BelowMin, "pool", "The pool is smaller than its minimum and is brought up to it.", ""},
	}
}

func nodeReasons() []ReasonDoc {
	return []ReasonDoc{
		{NodeEmpty, "node", "No pod but those of DaemonSets runs here. The node is given back once it has been empty for the pool's idleAfter, as far as this process has seen it empty: after a restart of the autoscaler that time begins anew.", ""},
		{NodeBusy, "node", "Pods run here, or the node says that it must not be removed; then a drain is given up.", ""},
		{NodeNeeded, "node", "The node is empty, and pending pods, replicas that are expected, or pods that are being moved will use it. A node that was being drained is released, for the pod that the detail names.", ""},
		{NodeUpcoming, "node", "The node is new and not ready yet; it counts as supply that is on its way.", ""},
		{NodeUnready, "node", "The node is not ready and should be by now. It is neither supply nor given back.",
			"Look at the node's conditions; delete it if it will not come back."},
		{NodeCordoned, "node", "Somebody cordoned the node. It is no supply and is left alone.",
			"Uncordon it when the maintenance is over."},
		{HoldersUnknown, "card, node, pod", "Who holds the card is not known, or no longer fresh. It is neither counted as empty nor changed. Of a pod: a card that could be cut for it is there, as soon as somebody says that it is free; another node would not be cut sooner.",
			"Check that the node's exporter runs and is scraped."},
		{RepartitionDone, "node", "A repartition has succeeded; the node is released to the scheduler.", ""},
		{RepartitionFailed, "node", "A repartition failed. It is undone and the node is released.",
			"Read the operation's message; often a process on the host still holds the card."},
		{RepartitionOverdue, "node", "A repartition passed its deadline without an answer. It is undone and the node is released.",
			"Look at mig-manager or the agent on the node."},
		{NodeUnderused, "node, pool", "All its pods fit on other nodes, and moving them costs less than the node: it is drained, then given back. Of a pool: this is done to one of its nodes.", ""},
		{NodeDraining, "node", "The node is being emptied. It is no supply. Pods that could not leave at first are asked again.", ""},
		{NodeDrained, "node", "The drain is over: the node is empty and is removed or replaced.", ""},
		{DrainOverdue, "node", "The node could not be emptied in time, or it is clear that it will not be. It is released to the scheduler and left alone for an hour.",
			"Look at the budgets and grace periods of the pods that stayed."},
		{NodeInterrupted, "node, pool", "The provider has given notice that it takes the node. It is drained at once, whatever else is drained, and room for what cannot run elsewhere is bought ahead. Of a pool: it grows for that.",
			"Nothing; where it happens often, compare the pool's interruptionsPerHour with what you see."},
		{NodeSick, "node, pool", "A card of the node has been sick for longer than the policy's sickAfter. The node is drained and replaced, one of a pool at a time; the detail says what stands against it. Of a pool: one of its nodes is replaced, or so many are sick that none is.",
			"Look at the card's XID errors; return the node to its owner. Where many are sick at once, look at what they share: driver, image, exporter."},
	}
}

func cardReasons() []ReasonDoc {
	return []ReasonDoc{
		{CardUnused, "card", "A pod holds the card, or an instance of it, and has not used it for an hour or more. The detail names it.",
			"Ask the pod's owner; let its tenant set reclaimIdle."},
		{CardStranded, "card", "Slices of the card are in no instance, though an instance could be added. It is cut anew when that disturbs nobody and serves what is asked for; the detail says what it waits for.", ""},
		{CardFree, "card", "Nothing holds the card.", ""},
		{CardHeld, "card", "A pod holds the card or one of its slices.", ""},
		{CardSick, "card", "The node reports the card as broken. It is no supply and is not changed.",
			"Drain the node and have the card looked at."},
	}
}
