package plan

import "slices"

// Reason is one word for why something was decided. Events, conditions, log
// lines, metric labels and docs/reasons.md use the same word.
type Reason string

// Reasons, by subject. Their texts are below.
const (
	// Pods.
	WaitScheduler        Reason = "WaitScheduler"
	WaitUpcomingNode     Reason = "WaitUpcomingNode"
	WaitRepartition      Reason = "WaitRepartition"
	NoFreeSlice          Reason = "NoFreeSlice"
	RepartitionExhausted Reason = "RepartitionExhausted"
	NoPoolFits           Reason = "NoPoolFits"
	PoolAtMax            Reason = "PoolAtMax"
	PoolFixed            Reason = "PoolFixed"
	CapacityKept         Reason = "CapacityKept"
	Running              Reason = "Running"
	DemandUnreadable     Reason = "DemandUnreadable"
	VolumeUnbound        Reason = "VolumeUnbound"
	Expendable           Reason = "Expendable"
	QuotaExceeded        Reason = "QuotaExceeded"
	BorrowedWaits        Reason = "BorrowedWaits"
	WaitReclaim          Reason = "WaitReclaim"
	PodLeaving           Reason = "PodLeaving"
	// Gangs.
	GangIncomplete Reason = "GangIncomplete"
	GangWaits      Reason = "GangWaits"
	GangServed     Reason = "GangServed"
	GangRunning    Reason = "GangRunning"
	// Tenants.
	WithinGuarantee Reason = "WithinGuarantee"
	Borrowing       Reason = "Borrowing"
	ReclaimBorrowed Reason = "ReclaimBorrowed"
	ReclaimIdle     Reason = "ReclaimIdle"
	// Forecasts.
	ForecastHeadroom Reason = "ForecastHeadroom"
	ForecastMet      Reason = "ForecastMet"
	ForecastUnsure   Reason = "ForecastUnsure"
	ForecastUnmet    Reason = "ForecastUnmet"
	ForecastIgnored  Reason = "ForecastIgnored"
	// Pools, nodes and GPUs.
	Steady             Reason = "Steady"
	Frozen             Reason = "Frozen"
	BoundReached       Reason = "BoundReached"
	TooManyUnready     Reason = "TooManyUnready"
	BackingOff         Reason = "BackingOff"
	CoolingDown        Reason = "CoolingDown"
	AtMin              Reason = "AtMin"
	NodeEmpty          Reason = "NodeEmpty"
	NodeBusy           Reason = "NodeBusy"
	NodeUpcoming       Reason = "NodeUpcoming"
	AllocationUnknown  Reason = "AllocationUnknown"
	RepartitionDone    Reason = "RepartitionDone"
	RepartitionFailed  Reason = "RepartitionFailed"
	RepartitionOverdue Reason = "RepartitionOverdue"
	BelowMin           Reason = "BelowMin"
	NotDelivered       Reason = "NotDelivered"
	NodeUnready        Reason = "NodeUnready"
	NodeCordoned       Reason = "NodeCordoned"
	NodeNeeded         Reason = "NodeNeeded"
	GPUFree            Reason = "GPUFree"
	GPUAllocated       Reason = "GPUAllocated"
	GPUSick            Reason = "GPUSick"
	GPUUnused          Reason = "GPUUnused"
	GPUStranded        Reason = "GPUStranded"
	NodeUnderused      Reason = "NodeUnderused"
	NodeDraining       Reason = "NodeDraining"
	NodeDrained        Reason = "NodeDrained"
	DrainOverdue       Reason = "DrainOverdue"
	NodeSick           Reason = "NodeSick"
	NodeInterrupted    Reason = "NodeInterrupted"
	TooManyIdle        Reason = "TooManyIdle"
)

// Served are the reasons of pending pods for which capacity is free or upcoming.
var Served = []Reason{WaitScheduler, WaitUpcomingNode, WaitRepartition, WaitReclaim}

// ReasonDoc explains one reason to readers of an event, a condition or an alert.
type ReasonDoc struct {
	Reason   Reason
	Kind     string // "pod", "pool", "node", "gpu", several separated by ", "
	Meaning  string
	WhatToDo string // empty: nothing
}

// Reasons returns every reason with its explanation, in the order in which
// docs/reasons.md lists them.
func Reasons() []ReasonDoc { return slices.Clone(reasons) }

var reasons = []ReasonDoc{
	{WaitScheduler, "pod", "The pod fits free GPUs or slices now, or the scheduler has not answered yet. No action is taken: the scheduler places the pod.",
		"If it lasts for minutes, read the pod's FailedScheduling event: something that the planner does not know keeps the pod out, such as the storage capacity of a zone or a plugin of the scheduler."},
	{WaitUpcomingNode, "pod", "A node that fits the pod is upcoming, or was requested in this reconcile.",
		"Nothing, until the pool's verdict says BackingOff."},
	{WaitRepartition, "pod, node, gpu", "A GPU is being repartitioned into the requested slices, or its repartition begins with this reconcile.", ""},
	{NoFreeSlice, "pool", "No free GPU or slice fits a pending pod, so an action is taken for it.", ""},
	{RepartitionExhausted, "pool, pod", "No GPU can be repartitioned for the pod, or a repartition costs more than a node. The detail counts the GPUs by what prevents a repartition.",
		"Lower the pool's mig.idleAfter or policy.repartitionCooldown, add profiles to mig.allowedProfiles, or end pods that use slices."},
	{NoPoolFits, "pod", "No pool's template fits the pod, and no GPU of a pool may be repartitioned for it. The detail names what the nearest pool lacks.",
		"Compare the pod's selector, tolerations, volumes and requests with the pool's template; for parts of GPUs, its sharing.strategy. A volume node affinity conflict needs a pool where the volume is, with its zone in spec.template.labels."},
	{PoolAtMax, "pod, pool", "The only pools that fit the pod have reached their maximum.",
		"Raise the pool's max, or wait until a workload ends."},
	{PoolFixed, "pod, node", "The only pools that fit the pod are fixed: their machines are all in use, and none can be added. Of a node: it is empty and stays, since a fixed pool removes none.",
		"Wait until a workload ends, or add a machine: a node counts as soon as it has the pool's label."},
	{CapacityKept, "pod", "The pools that fit the pod keep their remaining nodes for a gang of higher priority that needs more than is free now. The detail names the gang.",
		"Wait until the gang runs, raise the pool's max, or give the pod a higher priority."},
	{DemandUnreadable, "pod", "Nothing is done for the pod. Its GPU request is invalid, or is for an accelerator that gpuscale does not know, or its namespace exceeds a limit. The detail names the resource or the limit, and the problem.",
		"Correct the pod's requests: one way to share GPUs in a container, valid amounts, GPUs of one vendor, a known device (docs/shared-gpus.md). The limits of a namespace are in docs/security.md."},
	{Running, "pod", "The pod is bound to a node.", ""},
	{QuotaExceeded, "pod, gang, tenant", "Its tenant's quota does not admit it: the limit is reached, or all that others lend is in use. Nothing is reserved or added for it. Of a tenant: it uses more than its limit.",
		"Raise the tenant's guarantee, limit or borrow limit, or end a workload of the tenant's."},
	{BorrowedWaits, "pod", "The pod is beyond what its tenant is guaranteed. The tenant may borrow, but nothing is free, and no nodes are added for borrowed demand.",
		"Wait until GPUs are free, raise the tenant's guarantee, or set policy.scaleUpBorrowed."},
	{WaitReclaim, "pod", "Pods that use what its tenant is guaranteed are being evicted.", ""},
	{PodLeaving, "pod, node", "A pod is being evicted, and its devices are still allocated to it. Of a node: what such pods free is reserved for pending pods.", ""},
	{VolumeUnbound, "pod", "No node can serve the pod for now. One of its PersistentVolumeClaims does not exist, has lost its volume, or is not bound to a volume yet (volumeBindingMode Immediate). The detail names the claim.",
		"Look at the claim's events; create the claim or its StorageClass. With volumeBindingMode WaitForFirstConsumer the volume is made for the pod's node."},
	{Expendable, "pod, gang", "The pod's priority is below policy.expendablePodsPriorityCutoff: the scheduler places it where capacity is free, and nothing is added, repartitioned or kept for it.",
		"Give it a higher priority, or lower the cutoff."},
	{GangIncomplete, "gang, pod", "Fewer members exist or are announced than the gang needs to run, so nothing is done for it.",
		"Look at the job's controller: it has not created all pods of the gang."},
	{GangWaits, "gang, pod", "Not all the members that the gang needs can be served, so none is, and nothing is added. The detail counts those that could be, and names what the next one lacks.",
		"Do what the detail's reason says, or make the gang smaller."},
	{GangServed, "gang", "All the members that the gang needs will run. The detail counts them by reason.", ""},
	{GangRunning, "gang", "As many members as the gang needs are running.", ""},
	{WithinGuarantee, "tenant", "The tenant uses no more than it is guaranteed.", ""},
	{Borrowing, "tenant", "The tenant uses more than it is guaranteed, out of what others lend and do not use. What it borrows may be reclaimed.", ""},
	{ReclaimBorrowed, "pod", "The pod is evicted: its tenant has borrowed what another tenant is guaranteed and now requests. The detail names the pod it is evicted for.",
		"Raise the tenant's guarantee, or give the pod a higher priority than others of its tenant."},
	{ReclaimIdle, "pod", "The pod is evicted: it has not used its GPUs for as long as its tenant allows.",
		"Let the workload end when it has nothing to do, or raise reclaimIdle of the tenant's GPUQuota."},
	{ForecastMet, "forecast", "There is capacity for all replicas that the forecast expects.", ""},
	{ForecastHeadroom, "forecast, pool", "Capacity was added in this reconcile for replicas that the forecast expects.", ""},
	{ForecastUnmet, "forecast", "There is no capacity yet for all replicas that the forecast expects. It is too early to add it, it costs more than pods that wait for it, or it cannot be added. The detail says which.", ""},
	{ForecastIgnored, "forecast", "The policy prepares for no forecast, or not for pods of this priority.",
		"Set policy.headroom to low, expected or high; see policy.expendablePodsPriorityCutoff."},
	{ForecastUnsure, "forecast", "There is no forecast to act on: its series has too few values or old ones, its spread is too wide, or its time is past.",
		"Check that the series of the forecast exists in Prometheus."},
	{Steady, "pool, node", "Nothing to do.", ""},
	{Frozen, "pod, pool, forecast", "The policy or the pool is frozen: decisions are shown, nothing is done.",
		"Lift the freeze when the reason for it has gone."},
	{BoundReached, "pod, pool, node", "A limit of the policy is reached: on actions or nodes of one reconcile, nodes requested in an hour, nodes removed in ten minutes, or evictions. A later reconcile continues. What a gang needs beyond the limit is reserved for it until then.",
		"If it lasts, find the limit in docs/guardrails.md, and raise it."},
	{TooManyUnready, "pod, pool, forecast", "More nodes are unready than the policy tolerates. What is observed cannot be trusted, so no action is taken.",
		"Bring the nodes back or delete them; look for a failed network or control plane first."},
	{TooManyIdle, "pool, node", "More nodes became idle at about the same time than policy.maxIdleAtOnce and policy.okIdle allow: the data may be wrong. No node is removed and no pod evicted for being idle until policy.idleHold after the last of them; pending pods are still served.",
		"Nothing, if a large job has ended. Otherwise look at the sources: exporters, Prometheus, the API server. policy.maxIdleAtOnce: 1 turns this off."},
	{BackingOff, "pod, pool", "The pool's provider fails to deliver: requested nodes are overdue, or it reported a failure. No more are requested for a while; other pools take over.",
		"Look at the provider: quota, stock-outs, a broken image."},
	{CoolingDown, "pod, pool, node, gpu", "An action is possible, but not yet: the last one was too recent or failed, or a slice has not been idle for long enough. The detail says until when.", ""},
	{AtMin, "pool, node", "The pool is at its minimum; an empty node stays, and a drained one is uncordoned.", ""},
	{BelowMin, "pool", "The pool is smaller than its minimum and is scaled up to it.", ""},
	{NotDelivered, "pool", "Requested nodes did not register in time, or the provider reports that it cannot make them. The request is withdrawn, as far as the provider can without removing a node. The pool backs off, and then requests what is demanded by then.",
		"Look at the provider: stock, quota, machines that fail to boot or to join. Allow another pool."},
	{NodeEmpty, "node", "No pods run on the node but those of DaemonSets. The node is removed once it has been empty for the pool's scaleDown.idleAfter, by default as long as a new node takes. A restart of the autoscaler begins that time again.", ""},
	{NodeBusy, "node", "Pods run on the node, or scale-down is disabled for it. Disabling it also ends a drain.", ""},
	{NodeNeeded, "node", "The node is empty, and pending pods, replicas that a forecast expects, or pods that are being moved will use it. A node that was being drained is uncordoned for the pod that the detail names.", ""},
	{NodeUpcoming, "node", "The node is new and not ready yet; it counts as upcoming supply.", ""},
	{NodeUnready, "node", "The node is not ready, and should be by now. It does not count as supply, and is not removed.",
		"Look at the node's conditions; delete it if it will not come back."},
	{NodeCordoned, "node", "The node was cordoned by a user or another controller. It does not count as supply, and gpuscale does not change it.",
		"Uncordon it when the maintenance is over."},
	{AllocationUnknown, "gpu, node, pod", "It is unknown, or known from stale data only, to which pods the GPU is allocated. The GPU does not count as free, and is not changed. Of a pod: a GPU can be repartitioned for it once it is known to be free; a new node would not be repartitioned sooner.",
		"Check that the node's exporter runs and is scraped."},
	{RepartitionDone, "node", "A repartition has succeeded; the node is uncordoned.", ""},
	{RepartitionFailed, "node", "A repartition failed. It is rolled back, and then the node is uncordoned. If five attempts do not restore the node, it stays cordoned.",
		"Read the operation's message; often a process on the host still uses the GPU. Uncordon a node that stays cordoned once it offers its GPUs again."},
	{RepartitionOverdue, "node", "A repartition passed its deadline without a result. It is rolled back as a failed one is.",
		"Read the log of mig-manager or of the agent on the node."},
	{NodeUnderused, "node, pool", "All its pods fit on other nodes or are expendable, and moving them costs less than the node: it is drained, then removed. Of a pool: one of its nodes is.", ""},
	{NodeDraining, "node", "The node is being drained. It does not count as supply. Evictions that were refused are retried.", ""},
	{NodeDrained, "node", "The drain is over: the node is empty and is removed or replaced.", ""},
	{DrainOverdue, "node", "The node could not be drained in time, or certainly will not be. It is uncordoned and left alone for an hour.",
		"Look at the PodDisruptionBudgets and grace periods of the pods that stayed."},
	{NodeInterrupted, "node, pool", "The provider has announced the node's interruption. It is drained at once, whatever other drains are under way, and capacity is added ahead for its pods that fit nowhere else. Of a pool: it is scaled up for that.",
		"Nothing. Where it is frequent, compare the pool's interruptionsPerHour with what you observe."},
	{NodeSick, "node, pool", "A GPU of the node has been sick for longer than the policy's sickAfter. The node is drained and replaced, one of a pool at a time; the detail says what prevents it. Of a pool: one of its nodes is replaced, or so many are sick that none is.",
		"Look at the GPU's XID errors; report the node to its provider. Where many are sick at once, check what they share: driver, image, exporter."},
	{GPUUnused, "gpu", "The GPU, or a MIG device of it, is allocated to a pod that has not used it for an hour or more. The detail names the pod.",
		"Ask the pod's owner, or set reclaimIdle in the tenant's GPUQuota."},
	{GPUStranded, "gpu", "Slices of the GPU are in no GPU instance, although one could be added. The GPU is repartitioned once a pending pod or a forecast needs that.", ""},
	{GPUFree, "gpu", "The GPU is allocated to no pod.", ""},
	{GPUAllocated, "gpu", "The GPU, or a MIG device of it, is allocated to a pod.", ""},
	{GPUSick, "gpu", "The node reports the GPU as broken. It does not count as supply, and is not changed.",
		"Drain the node and have the GPU looked at."},
}
