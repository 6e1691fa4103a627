package plan

// Reason is one word for why something was decided. Events, conditions, log
// lines, metric labels and docs/reasons.md use the same word.
type Reason string

// Reasons, by subject. Their texts are in reasons.go.
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
	Running              Reason = "Running"
	DemandUnreadable     Reason = "DemandUnreadable"
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
