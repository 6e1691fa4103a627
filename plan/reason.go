package plan

// Reason is one word of the answer's vocabulary. The same word stands in the
// Event, the condition, the log line, the metric label and docs/reasons.md.
type Reason string

// Reasons, by who they are about. doc strings live in reasons (reasons.go).
const (
	// Pods.
	WaitScheduler        Reason = "WaitScheduler"
	WaitUpcomingNode     Reason = "WaitUpcomingNode"
	WaitRepartition      Reason = "WaitRepartition"
	NoFreeSlice          Reason = "NoFreeSlice"
	RepartitionExhausted Reason = "RepartitionExhausted"
	NoPoolFits           Reason = "NoPoolFits"
	PoolAtMax            Reason = "PoolAtMax"
	Running              Reason = "Running"
	DemandUnreadable     Reason = "DemandUnreadable"
	// Pools, nodes and cards.
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
	HoldersUnknown     Reason = "HoldersUnknown"
	RepartitionDone    Reason = "RepartitionDone"
	RepartitionFailed  Reason = "RepartitionFailed"
	RepartitionOverdue Reason = "RepartitionOverdue"
	BelowMin           Reason = "BelowMin"
	NodeUnready        Reason = "NodeUnready"
	NodeCordoned       Reason = "NodeCordoned"
	NodeNeeded         Reason = "NodeNeeded"
	CardFree           Reason = "CardFree"
	CardHeld           Reason = "CardHeld"
	CardSick           Reason = "CardSick"
)
