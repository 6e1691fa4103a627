package capacity

// State is the state of a part of a GPU. Every part has exactly one.
type State uint8

// States. Where several apply, Sick precedes Unready, Booting and Unknown, then
// Allocated, then the others: what is allocated on a sick GPU is Sick, and on a
// cordoned node Allocated.
const (
	Free           State = iota // in service, and not allocated
	Allocated                   // to a pod
	Fragmented                  // free, but the layouts keep it from every pending pod
	Stranded                    // free, but its node keeps it from every pending pod
	Cordoned                    // free on a node that takes no new pods
	Repartitioning              // not allocated, on a node whose GPUs are being repartitioned
	Unknown                     // allocation or layout unknown
	Booting                     // on a node that is not ready yet
	Unready                     // on a node that is unready and should be ready
	Sick                        // on a GPU that the node reports as broken

	NumStates
)

var stateNames = [NumStates]string{
	Free: "free", Allocated: "allocated", Fragmented: "fragmented", Stranded: "stranded", Cordoned: "cordoned", Repartitioning: "repartitioning",
	Unknown: "unknown", Booting: "booting", Unready: "unready", Sick: "sick",
}

// String returns the word used in labels.
func (s State) String() string {
	if s < NumStates {
		return stateNames[s]
	}
	return "no state"
}

// Cause is why no pending pod can use a Fragmented or Stranded part.
type Cause uint8

// Causes, from the furthest from serving a pending pod to the nearest.
const (
	NoCause       Cause = iota
	Odd                 // no profile fits what the instances leave: compute without memory, or the reverse
	Unpartitioned       // slices in no instance: they cannot be requested until the GPU is repartitioned
	Unreachable         // selectors and taints keep every pending pod that requests its kind away
	Shape               // another size than pending pods request
	Scattered           // of the right kind, but a pod requests more of them together than the node has
	NoMemory            // its node has less memory left than a pod requests
	NoCPU               // its node has less CPU left than a pod requests

	numCauses
)

var causeNames = [numCauses]string{
	NoCause: "-", Odd: "odd", Unpartitioned: "unpartitioned", Unreachable: "unreachable", Shape: "shape", Scattered: "scattered",
	NoCPU: "no_cpu", NoMemory: "no_memory",
}

// String returns the word used in labels.
func (c Cause) String() string {
	if c < numCauses {
		return causeNames[c]
	}
	return "no_cause"
}

// state is Fragmented where another layout or another placement of the same
// pods would help, Stranded where the node is what prevents it.
func (c Cause) state() State {
	switch c {
	case NoCause:
		return Free
	case Odd, Unpartitioned, Shape, Scattered:
		return Fragmented
	}
	return Stranded
}
