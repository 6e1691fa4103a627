package capacity

import "strings"

// State is what a part of a GPU is in at one moment. Every part is in exactly
// one.
type State uint8

// States. Of several that apply Sick is the one, then Unready, Booting and Unknown,
// then Held, then the others: what a pod holds on a sick GPU is Sick, and what it
// holds on a cordoned node is Held.
const (
	Free           State = iota // in service, and nobody holds it
	Held                        // by a pod
	Fragmented                  // free, but the layouts keep it from serving anybody
	Stranded                    // free, but its node keeps it from serving anybody
	Cordoned                    // free on a node that takes no new pods
	Repartitioning              // not allocated, on a node whose GPUs are being repartitioned
	Unknown                     // nobody knows who holds it, or what the GPU is partitioned into
	Booting                     // on a node that is still coming up
	Unready                     // on a node that is not ready and should be
	Sick                        // on a GPU that the node reports as broken

	NumStates
)

var stateNames = [NumStates]string{
	Free: "free", Held: "allocated", Fragmented: "fragmented", Stranded: "stranded", Cordoned: "cordoned", Repartitioning: "repartitioning",
	Unknown: "unknown", Booting: "booting", Unready: "unready", Sick: "sick",
}

// String returns the word used in tables and labels.
func (s State) String() string {
	if s < NumStates {
		return stateNames[s]
	}
	return "no state"
}

// Cause says why a Fragmented or Stranded part serves nobody.
type Cause uint8

// Causes, from the furthest from serving a pending pod to the nearest.
const (
	NoCause     Cause = iota
	Odd               // no profile fits what the instances leave: compute without memory, or the reverse
	Uncut             // room that no instance covers: nobody can ask for it until the GPU is repartitioned
	Unreachable       // selectors and taints keep every pending pod that requests its kind away
	Shape             // cut, or shared, otherwise than any pending pod asks
	Scattered         // of the right kind, but a pod requests more of them together than the node has
	NoMemory          // its node has not the memory left that a pod asks for
	NoCPU             // its node has not the CPU left that a pod asks for

	numCauses
)

var causeNames = [numCauses]string{
	NoCause: "-", Odd: "odd", Uncut: "unpartitioned", Unreachable: "unreachable", Shape: "shape", Scattered: "scattered",
	NoCPU: "no cpu", NoMemory: "no memory",
}

// String returns the word used in tables.
func (c Cause) String() string {
	if c < numCauses {
		return causeNames[c]
	}
	return "no cause"
}

// Label returns the word used in labels, without blanks: "no_cpu".
func (c Cause) Label() string { return strings.ReplaceAll(c.String(), " ", "_") }

// state is Fragmented where another layout or another place for the same pods
// would help, Stranded where the node stands in the way.
func (c Cause) state() State {
	switch c {
	case NoCause:
		return Free
	case Odd, Uncut, Shape, Scattered:
		return Fragmented
	}
	return Stranded
}
