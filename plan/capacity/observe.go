package capacity

import (
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// Observation is the state of every GPU at one moment. A GPU that is not in it
// is no capacity from then on: one that exists without known state must be
// there as Unknown.
type Observation struct {
	At   time.Time
	GPUs []Seen
}

// Seen is one GPU of an Observation.
type Seen struct {
	// Name identifies a GPU within one observation: "n1/0", or a UUID. It need not
	// stay the same from one observation to the next.
	Name        string
	Pool, Model string
	Parts       []Piece // their Shares add up to GPUShares
}

// Piece of a GPU, by its share of the compute.
type Piece struct {
	Shares int
	State  State
	// Tenant and Namespace of the pod it is allocated to, empty for none.
	Tenant, Namespace string
	// Busy ratio of an Allocated piece, 0 … 1; unknown where it is not measured.
	Busy sample.Value
}

// Observation returns the survey as a ledger needs it. Parts that are memory
// alone take no GPU time.
func (sv *Survey) Observation() Observation {
	o := Observation{At: sv.At, GPUs: make([]Seen, len(sv.GPUs))}
	for i := range sv.GPUs {
		c := &sv.GPUs[i]
		seen := Seen{Name: c.Name(), Pool: c.Pool, Model: c.Model, Parts: make([]Piece, 0, len(c.Parts))}
		for k := range c.Parts {
			if p := &c.Parts[k]; p.Size.Compute > 0 {
				seen.Parts = append(seen.Parts, Piece{p.Size.Compute, p.State, p.Tenant, p.Namespace(), p.Busy})
			}
		}
		o.GPUs[i] = seen
	}
	return o
}

// check returns what is wrong with a GPU, nil for nothing.
func (s *Seen) check() error {
	sum := 0
	for i := range s.Parts {
		p := &s.Parts[i]
		switch {
		case p.Shares < 0 || p.Shares > GPUShares:
			return fmt.Errorf("GPU %q: part %d: shares: want 0 … %d: %d", s.Name, i, GPUShares, p.Shares)
		case p.State >= NumStates:
			return fmt.Errorf("GPU %q: part %d: there is no state %d", s.Name, i, p.State)
		}
		if sum += p.Shares; sum > GPUShares {
			break
		}
	}
	if sum != GPUShares {
		return fmt.Errorf("GPU %q: parts: their shares add up to %d, want %d", s.Name, sum, GPUShares)
	}
	return nil
}
