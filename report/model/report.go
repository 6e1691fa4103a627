package model

import "time"

// Schema is the version of the JSON form. A field may be added within it; a field
// that goes, or means something else, makes a new one.
const Schema = 1

// Report is the capacity report. Hours are hours of whole cards (a 3g slice of an
// H100 for seven hours is three), money is in Currency, shares are from 0 to 1.
// The tag doc is what the JSON schema says about a field.
type Report struct {
	Schema      int         `json:"schema" doc:"Version of this form: 1."`
	Generated   time.Time   `json:"generated" doc:"When the report was made."`
	Version     string      `json:"version" doc:"Version of gpuscale-report that made it."`
	Window      Window      `json:"window" doc:"The time the report is about."`
	Currency    string      `json:"currency" doc:"Currency of all money; empty where there are no prices."`
	Answer      Answer      `json:"answer" doc:"Section 0."`
	Hours       Hours       `json:"hours" doc:"Section 1: where every GPU-hour went."`
	Demand      Demand      `json:"demand" doc:"Section 2: who waited, and for what."`
	Use         Use         `json:"use" doc:"Section 3: by team, namespace and model."`
	Pools       []Pool      `json:"pools" doc:"Section 4: node pools."`
	MIG         MIG         `json:"mig" doc:"Section 5: MIG and right-sizing."`
	Forecast    Forecast    `json:"forecast" doc:"Section 6."`
	Actions     []Action    `json:"actions" doc:"Section 7: what to do, the most worth first."`
	Reliability Reliability `json:"reliability" doc:"Section 8."`
	Changes     Changes     `json:"changes" doc:"Section 9: since the report before."`
	Methods     Methods     `json:"methods" doc:"Section A: how it was made."`
}

// Window is the time the report is about.
type Window struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Hours float64   `json:"hours" doc:"Length in hours."`
}

// Answer is section 0.
type Answer struct {
	Text    string   `json:"text" doc:"One paragraph."`
	Figures []Figure `json:"figures" doc:"The five numbers."`
	Quality Quality  `json:"quality" doc:"How far the data can be relied on."`
}

// Figure is one of the five numbers.
type Figure struct {
	Name  string `json:"name"`
	Value Number `json:"value"`
	Unit  string `json:"unit" doc:"\"hours\", \"share\" or \"money\"."`
	Note  string `json:"note" doc:"What it means, in a few words."`
	Money Number `json:"money" doc:"What it cost."`
}

// Quality says how far the data can be relied on.
type Quality struct {
	Grade        string   `json:"grade" doc:"\"good\" at 99 % coverage or more with 1 % of hours unknown or less, \"fair\" at 90 % and 10 %, else \"poor\"; where the places claim 0.1 % more than the capacity it is \"fair\" at best, with 1 % \"poor\"."`
	Coverage     Number   `json:"coverage" doc:"Share of the window of which there is a record."`
	Gaps         []Gap    `json:"gaps" doc:"Times without a record, the longest first, at most 20."`
	Unattributed Number   `json:"unattributed" doc:"Hours in the places unknown and unmeasured."`
	Source       string   `json:"source" doc:"Whose series the ledger is made from."`
	Prices       string   `json:"prices" doc:"Where prices come from and of which day they are, or why there are none."`
	Problems     []string `json:"problems" doc:"What was asked and not answered."`
}

// Gap is a time without a record.
type Gap struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// Hours is section 1.
type Hours struct {
	Capacity Number   `json:"capacity" doc:"All GPU-hours there were."`
	Cards    Number   `json:"cards" doc:"Cards, mean over the time of which anything is known."`
	Money    Number   `json:"money" doc:"What they cost."`
	Places   []Place  `json:"places" doc:"Each place in the order of the waterfall. Known hours add up to the capacity."`
	Over     []Bucket `json:"over" doc:"The same over time."`
	Sum      Number   `json:"sum" doc:"Hours of all places: within 0.1 % of capacity."`
	Notes    []string `json:"notes"`
}

// Place is where GPU-hours went.
type Place struct {
	Place   string `json:"place" doc:"Word of the label place of gpuscale_autoscaler_gpu_seconds_total."`
	Group   string `json:"group" doc:"\"broken\", \"coming\", \"unknown\", \"unused\", \"held\" or \"productive\"."`
	Name    string `json:"name"`
	Hours   Number `json:"hours"`
	Share   Number `json:"share" doc:"Of the capacity."`
	Money   Number `json:"money"`
	Meaning string `json:"meaning"`
}

// Bucket is a part of the window.
type Bucket struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Hours are by place in the order of Hours.Places.
	Hours []Number `json:"hours" doc:"In the order of places."`
}

// Demand is section 2.
type Demand struct {
	Waits    []Wait    `json:"waits" doc:"Time from a pod's creation until it was bound; the first row is all tenants."`
	Decision Wait      `json:"decision" doc:"Time until the autoscaler did something for a pending pod."`
	Unmet    []Unmet   `json:"unmet" doc:"Demand that nothing served, by shape and reason, the most hours first."`
	HPAs     []HPA     `json:"hpas" doc:"HPAs that had as many replicas as they may, the longest first."`
	Refused  []Refused `json:"refused" doc:"Pods that a quota kept waiting."`
	Missing  string    `json:"missing" doc:"Why the section is empty, if it is."`
}

// Wait is a distribution of times in seconds.
type Wait struct {
	Of    string `json:"of"`
	Count Number `json:"count"`
	P50   Number `json:"p50"`
	P95   Number `json:"p95"`
	P99   Number `json:"p99"`
}

// Unmet is demand of one shape that nothing served.
type Unmet struct {
	Shape  string `json:"shape" doc:"What one pod asks for: cards, a MIG profile or a fraction."`
	Reason string `json:"reason" doc:"The autoscaler's reason: see docs/reasons.md."`
	Hours  Number `json:"hours" doc:"GPU-hours waited for in vain."`
	Peak   Number `json:"peak" doc:"Cards, at the most."`
}

// HPA is one that ran into its bound.
type HPA struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	AtMax     Number `json:"atMax" doc:"Hours, of the clock."`
	Max       Number `json:"max" doc:"Replicas it may have."`
	Reasons   string `json:"reasons" doc:"The HPA's own words for what limited it."`
}

// Refused is pods a quota kept waiting.
type Refused struct {
	Reason   string `json:"reason"`
	PodHours Number `json:"podHours"`
}

// Use is section 3.
type Use struct {
	Tenants []Tenant  `json:"tenants" doc:"Quotas, means over the window in cards."`
	Rows    []UseRow  `json:"rows" doc:"By tenant, namespace and model, the most expensive first, or the largest without prices."`
	Serving []Serving `json:"serving" doc:"Namespaces whose servers count tokens."`
	Missing string    `json:"missing" doc:"What the section lacks, if anything."`
}

// Tenant is a quota and its use; means over the window in cards.
type Tenant struct {
	Tenant     string `json:"tenant"`
	Guaranteed Number `json:"guaranteed"`
	Limit      Number `json:"limit"`
	Used       Number `json:"used"`
	Borrowed   Number `json:"borrowed"`
	Lent       Number `json:"lent"`
	Waiting    Number `json:"waiting"`
}

// UseRow is what a holder had of one model.
type UseRow struct {
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace"`
	Model     string `json:"model"`
	Allocated Number `json:"allocated" doc:"Hours held."`
	Used      Number `json:"used" doc:"Hours computing."`
	Share     Number `json:"share" doc:"Used ÷ allocated whose use is known."`
	Idle      Number `json:"idle" doc:"Hours held by what hardly computed at all."`
	Money     Number `json:"money" doc:"Of what was allocated."`
	Waste     Number `json:"waste" doc:"Of what was idle."`
}

// Serving is what a namespace's inference servers wrote.
type Serving struct {
	Namespace string `json:"namespace"`
	Models    string `json:"models" doc:"Names of the models served."`
	Tokens    Number `json:"tokens" doc:"Written."`
	Allocated Number `json:"allocated" doc:"Hours the namespace held."`
	Cost      Number `json:"cost" doc:"Money per million tokens written: all the namespace held, not only its servers."`
}

// Pool is a row of section 4.
type Pool struct {
	Pool         string `json:"pool"`
	Model        string `json:"model"`
	Class        string `json:"class" doc:"\"spot\", \"on demand\" or \"unknown\"."`
	Min          Number `json:"min"`
	Max          Number `json:"max"`
	Mean         Number `json:"mean" doc:"Nodes, mean over the window."`
	Now          Number `json:"now" doc:"Nodes at the end."`
	Hours        Number `json:"hours" doc:"GPU-hours."`
	Used         Number `json:"used" doc:"Share of them computing."`
	Money        Number `json:"money"`
	Added        Number `json:"added" doc:"Scale-ups carried out."`
	Removed      Number `json:"removed" doc:"Nodes removed."`
	Repartitions Number `json:"repartitions"`
	Failures     Number `json:"failures"`
	FailedFor    string `json:"failedFor" doc:"Reasons of the failures."`
	ReadyP50     Number `json:"readyP50" doc:"Seconds from request to ready."`
	ReadyP95     Number `json:"readyP95"`
	Interrupted  Number `json:"interrupted" doc:"Spot notices."`
	BackedOff    Number `json:"backedOff" doc:"Hours left alone since it failed to deliver."`
}

// MIG is section 5.
type MIG struct {
	Cards         []MIGCard       `json:"cards" doc:"Cards cut into instances at the end, at most 512."`
	CardsTotal    int             `json:"cardsTotal"`
	Fragmentation []Fragmentation `json:"fragmentation"`
	Profiles      []Profile       `json:"profiles"`
	RightSize     []RightSize     `json:"rightSize" doc:"Who would do with a smaller slice, the most saved first."`
	RightSizeNote string          `json:"rightSizeNote" doc:"The evidence asked for, and what it left out."`
	Missing       string          `json:"missing" doc:"Why the section is empty, if it is."`
}

// MIGCard is a card and its instances.
type MIGCard struct {
	Node      string     `json:"node"`
	GPU       string     `json:"gpu"`
	UUID      string     `json:"uuid"`
	Model     string     `json:"model"`
	Slices    int        `json:"slices" doc:"Memory slices of the card."`
	Instances []Instance `json:"instances" doc:"By start."`
}

// Instance is a MIG instance.
type Instance struct {
	Profile string `json:"profile"`
	Start   int    `json:"start" doc:"First memory slice."`
	Size    int    `json:"size" doc:"Memory slices."`
	Holder  string `json:"holder" doc:"namespace/pod, of several the first and how many more; empty where nobody holds it."`
}

// Fragmentation is how scattered the free slices of a model's cut cards are.
type Fragmentation struct {
	Model string `json:"model"`
	Cards int    `json:"cards"`
	Free  int    `json:"free" doc:"Compute slices nobody holds."`
	Index Number `json:"index" doc:"1 - (compute slices of the largest instance that fits beside what is held, over all cards) ÷ free. 0: every card's free slices are one piece."`
}

// Profile is a kind of instance and its use.
type Profile struct {
	Model     string `json:"model"`
	Profile   string `json:"profile"`
	Instances int    `json:"instances" doc:"At the end."`
	Held      int    `json:"held" doc:"At the end."`
	Mean      Number `json:"mean" doc:"Instances held, mean over the window."`
}

// RightSize is who would do with less.
type RightSize struct {
	Namespace string `json:"namespace"`
	Workload  string `json:"workload"`
	Model     string `json:"model"`
	From      string `json:"from" doc:"Profile held, \"whole card\" for none."`
	To        string `json:"to" doc:"Smallest profile that has room, with the margin."`
	Memory    Number `json:"memory" doc:"99th percentile of memory in use, bytes."`
	Use       Number `json:"use" doc:"95th percentile of use, as a share of what is held."`
	Evidence  Number `json:"evidence" doc:"Hours of one holder watched."`
	Hours     Number `json:"hours" doc:"GPU-hours it would have saved."`
}

// Forecast is section 6.
type Forecast struct {
	Outlooks  []Outlook  `json:"outlooks"`
	Workloads []Workload `json:"workloads" doc:"What the autoscaler expects of workloads it was told to watch."`
	Note      string     `json:"note"`
}

// Outlook is what is expected of one pool, or of all.
type Outlook struct {
	Of       string    `json:"of"`
	Limit    Number    `json:"limit" doc:"Cards there can be: of a pool at its maximum, else those there were at the end."`
	Past     []Point   `json:"past" doc:"Cards held."`
	Ahead    []Band    `json:"ahead" doc:"Cards expected; empty where there is not enough data."`
	Level    float64   `json:"level" doc:"Share of outcomes the band is meant to hold."`
	Method   string    `json:"method"`
	Error    BackTest  `json:"error" doc:"How the method did on the past at the last horizon."`
	Why      string    `json:"why" doc:"Why this method, or why there is no forecast."`
	Exhausts Exhausted `json:"exhausts"`
}

// Point is cards at a time.
type Point struct {
	At    time.Time `json:"at"`
	Cards Number    `json:"cards"`
}

// Band is cards expected at a time.
type Band struct {
	At       time.Time `json:"at"`
	Low      Number    `json:"low"`
	Expected Number    `json:"expected"`
	High     Number    `json:"high"`
	Low95    Number    `json:"low95" doc:"Of the band that is meant to hold 95 %."`
	High95   Number    `json:"high95"`
}

// BackTest is how a method did on the past.
type BackTest struct {
	MAPE     Number `json:"mape" doc:"Mean error as a share of the actual value."`
	MASE     Number `json:"mase" doc:"Error relative to saying that nothing will change: below 1 is better."`
	Coverage Number `json:"coverage" doc:"Share of actual values inside the band."`
	Wide     Number `json:"coverage95" doc:"The same of the band that is meant to hold 95 %."`
	Tests    int    `json:"tests"`
}

// Exhausted is when the cards run out, as a range in days from the end.
type Exhausted struct {
	Earliest Number `json:"earliest" doc:"When the band's upper end reaches the limit."`
	Expected Number `json:"expected"`
	Latest   Number `json:"latest" doc:"When its lower end does."`
	Text     string `json:"text"`
}

// Workload is what the autoscaler expects of one workload, in cards.
type Workload struct {
	Workload string `json:"workload"`
	Low      Number `json:"low"`
	Expected Number `json:"expected"`
	High     Number `json:"high"`
	Error    Number `json:"error" doc:"Mean error over its own past, as a share of the mean."`
}

// Action is something to do.
type Action struct {
	ID         string `json:"id" doc:"The same for the same thing in another report."`
	Kind       string `json:"kind" doc:"\"reclaim\", \"right-size\", \"shrink-pool\", \"repartition\", \"strand\", \"replace\", \"grow-pool\", \"raise-quota\" or \"raise-hpa\"."`
	Effect     string `json:"effect" doc:"\"frees\" GPU-hours, or \"serves\" demand that waits."`
	Title      string `json:"title"`
	Hours      Number `json:"hours" doc:"GPU-hours of the window it is about; of raise-hpa hours of the clock."`
	Money      Number `json:"money" doc:"What those cost."`
	Patch      string `json:"patch" doc:"What to run, or to change."`
	Risk       string `json:"risk"`
	Confidence string `json:"confidence" doc:"\"high\", \"medium\" or \"low\"."`
	Because    string `json:"because" doc:"What the confidence rests on."`
	Query      string `json:"query" doc:"PromQL that gives the hours when asked at window.until."`
}

// Reliability is section 8.
type Reliability struct {
	XIDs    []XID      `json:"xids" doc:"XID errors by code, the most first."`
	Lost    Number     `json:"lost" doc:"GPU-hours in the places sick and unready."`
	Money   Number     `json:"money" doc:"What they cost."`
	Nodes   []SickNode `json:"nodes" doc:"Nodes with sick cards, the longest first."`
	MTBF    Number     `json:"mtbf" doc:"Card-hours per XID that condemns a card."`
	Missing string     `json:"missing" doc:"What the section lacks, if anything."`
}

// XID is one code of error.
type XID struct {
	Code      string   `json:"code"`
	Count     Number   `json:"count"`
	Cards     int      `json:"cards"`
	Nodes     []string `json:"nodes"`
	Condemned bool     `json:"condemned" doc:"After such an error the card needs a reset or a technician."`
}

// SickNode is a node and how long its cards were sick.
type SickNode struct {
	Node  string `json:"node"`
	Hours Number `json:"hours" doc:"GPU-hours."`
}

// Changes is section 9.
type Changes struct {
	Since   string    `json:"since" doc:"The window of the report before, or why there is none."`
	Figures []Change  `json:"figures"`
	Actions []Outcome `json:"actions" doc:"What became of the actions of the report before."`
}

// Change is a figure then and now.
type Change struct {
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	Before Number `json:"before"`
	Now    Number `json:"now"`
}

// Outcome is what an action was to free a day, and has.
type Outcome struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Predicted Number `json:"predicted" doc:"GPU-hours a day."`
	Realised  Number `json:"realised" doc:"GPU-hours a day fewer than before; negative where it has become worse."`
	Verdict   string `json:"verdict"`
}

// Methods is section A.
type Methods struct {
	Text    []string `json:"text"`
	Steps   string   `json:"steps" doc:"How far apart values are."`
	Queries []Query  `json:"queries"`
}

// Query is what was asked.
type Query struct {
	Name   string `json:"name"`
	What   string `json:"what"`
	Step   string `json:"step" doc:"Between values; empty for the end of the window."`
	PromQL string `json:"promql"`
}
