package story

import "time"

// Story is everything a sandbox is to play.
type Story struct {
	Title     string
	Pools     []Pool
	Nodes     []Node
	Replayed  int // nodes of which only readings exist
	Workloads []Workload
	HPAs      []HPA
	Traffic   *Traffic // nil: none
	Faults    []Fault  // by time
	Expect    []Expectation
	Always    []Expectation
}

// Layout is the wanted instances of each card of a node, profile name to count.
// Empty: cards without MIG. One entry stands for all cards.
type Layout []map[string]int

// Pool of equal nodes.
type Pool struct {
	Name, Product  string
	Cards          int
	Min, Max       int
	Price          float64 // of a node, an hour
	Boot           time.Duration
	Layout         Layout
	IdleAfter      time.Duration // of an instance before it may be destroyed
	ScaleDownAfter time.Duration // of an empty node
	BootFails      int           // so many new nodes never come up
	CPU, MemoryGiB int
}

// Node that exists at the start.
type Node struct {
	Name, Pool string
	Layout     Layout // empty: the pool's
}

// Kind of workload.
type Kind string

// Kinds of workload.
const (
	Run   Kind = "run"   // holds its devices and is busy to a fixed degree
	Serve Kind = "serve" // a simulated inference server
)

// Workload is a Deployment.
type Workload struct {
	Kind            Kind
	Namespace, Name string
	Replicas        int
	Ask             string // extended resource, Count of them a pod
	Count           int
	Node, Pool      string        // where it must run; empty: anywhere
	Busy            float64       // Run: 0 … 1
	MemoryGiB       float64       // Run: of device memory
	Model           string        // Serve
	Load            time.Duration // Serve: until the model is loaded
}

// HPA on a Deployment, by Object metrics of that Deployment.
type HPA struct {
	Namespace, Name string
	Min, Max        int
	Metrics         []Metric
	Up              int // pods it may add …
	UpEvery         time.Duration
	DownAfter       time.Duration // stabilisation
}

// Metric an HPA follows. The HPA takes the largest of its metrics' answers.
type Metric struct {
	Name   string
	Target int // AverageValue: per replica
}

// Traffic to a served Deployment: the synthetic trace, unless another is given.
type Traffic struct {
	Namespace, Name string
	Speed           float64
	Seed            uint64
	Base, Peak      float64
	Length          time.Duration // in traffic time
}

// Fault that befalls the world.
type Fault struct {
	At   time.Duration
	What string // one of FaultNames
	Args map[string]string
}

// FaultNames lists the faults that can be told, with the arguments each needs.
func FaultNames() map[string][]string {
	return map[string][]string{
		"wedge":   {"node"},                 // mig-manager hangs in its next change
		"unwedge": {"node"},                 //
		"xid":     {"node", "card", "code"}, // an error event; 79 takes the card off the bus
		"kill":    {"program"},              // ends a program; it is started again
	}
}
