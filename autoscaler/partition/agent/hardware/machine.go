package hardware

import (
	"errors"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Errors that a caller may want to tell apart.
var (
	// ErrLost: the card has fallen off the bus.
	ErrLost = errors.New("the card has fallen off the bus")
	// ErrInUse: a process uses what was to be changed.
	ErrInUse = errors.New("in use by a process")
	// ErrNoRoom: the card has no slices left for the instance.
	ErrNoRoom = errors.New("no room on the card")
	// ErrNeedsReset: the change waits for a reset that the driver cannot make.
	ErrNeedsReset = errors.New("the change needs a reset of the card or a reboot of the machine")
	// ErrHanging: a call into the driver has not come back in time. Nothing more
	// is asked of it until it does.
	ErrHanging = errors.New("the driver does not answer")
	// ErrNoSuchCard: no card has this UUID.
	ErrNoSuchCard = errors.New("no such card")
	// ErrNoLibrary: libnvidia-ml.so.1 cannot be loaded, or this program was built
	// without cgo.
	ErrNoLibrary = errors.New("libnvidia-ml.so.1 cannot be loaded")
)

// Machine is all that was read of a node's cards.
type Machine struct {
	Driver string // its version
	Cards  []Card // by the driver's index
}

// Card is one card.
type Card struct {
	Index     int
	UUID      string
	Product   string // as the driver names it
	MemoryMiB int
	// CanMIG is true for a product with MIG.
	CanMIG bool
	// MIG is the mode; PendingMIG the one after the next reset.
	MIG, PendingMIG bool
	// Spec is what the driver says the card can be cut into. It says so in MIG mode
	// only: otherwise there are no profiles.
	Spec      mig.Spec
	Instances []Instance // by start
	PIDs      []int      // of processes on the card and in its instances
	// Err is what kept the card from being read: the rest is then unknown. The
	// UUID is there where the card still told it.
	Err error
}

// Instance is one GPU instance.
type Instance struct {
	ID        int
	Placement mig.Placement
	// Whole is false for an instance without compute instance, which is what is left
	// where somebody was interrupted; nobody can use it.
	Whole bool
	UUID  string // of its MIG device, where it is whole
	// More are the UUIDs of further MIG devices in it, where somebody has made
	// several compute instances.
	More []string
	// PIDs of processes in it, or on the card and nobody says in which instance.
	PIDs []int
}

// Layout of the card's whole instances.
func (c Card) Layout() mig.Layout {
	var ps []mig.Placement
	for _, i := range c.Instances {
		if i.Whole {
			ps = append(ps, i.Placement)
		}
	}
	return mig.NewLayout(ps...)
}
