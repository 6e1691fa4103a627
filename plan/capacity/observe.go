package capacity

import (
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// Observation is the state of every card at one moment. A card that is not in it
// is no capacity from then on: one that exists but that nobody can see has to be
// there, as Unknown.
type Observation struct {
	At    time.Time
	Cards []Seen
}

// Seen is one card of an Observation.
type Seen struct {
	// Name tells the cards of one observation apart: "n1/0", or a UUID. It need not
	// stay the same from one observation to the next.
	Name        string
	Pool, Model string
	// PricePerHour of the card, 0 for unpriced.
	PricePerHour float64
	Parts        []Piece // their Shares add up to CardShares
}

// Piece of a card, by its share of the compute.
type Piece struct {
	Shares int
	State  State
	// Tenant and Namespace of the holder, empty for none.
	Tenant, Namespace string
	// Busy ratio of what is Held, 0 … 1; unknown where nobody measured it.
	Busy sample.Value
}

// Observation returns what a ledger takes of the survey. Parts that are memory
// alone take no GPU time.
func (sv *Survey) Observation() Observation {
	o := Observation{At: sv.At, Cards: make([]Seen, len(sv.Cards))}
	for i := range sv.Cards {
		c := &sv.Cards[i]
		seen := Seen{Name: c.Name(), Pool: c.Pool, Model: c.Model, PricePerHour: c.PricePerHour, Parts: make([]Piece, 0, len(c.Parts))}
		for k := range c.Parts {
			if p := &c.Parts[k]; p.Size.Compute > 0 {
				seen.Parts = append(seen.Parts, Piece{p.Size.Compute, p.State, p.Tenant, p.Namespace(), p.Busy})
			}
		}
		o.Cards[i] = seen
	}
	return o
}

// check says what is wrong with a card, nil for nothing.
func (s *Seen) check() error {
	if !(s.PricePerHour >= 0 && s.PricePerHour <= maxPrice) {
		return fmt.Errorf("card %q: price per hour: want 0 … %g: %g", s.Name, float64(maxPrice), s.PricePerHour)
	}
	sum := 0
	for i := range s.Parts {
		p := &s.Parts[i]
		switch {
		case p.Shares < 0 || p.Shares > CardShares:
			return fmt.Errorf("card %q: part %d: shares: want 0 … %d: %d", s.Name, i, CardShares, p.Shares)
		case p.State >= NumStates:
			return fmt.Errorf("card %q: part %d: there is no state %d", s.Name, i, p.State)
		}
		if sum += p.Shares; sum > CardShares {
			break
		}
	}
	if sum != CardShares {
		return fmt.Errorf("card %q: parts: their shares add up to %d, want %d", s.Name, sum, CardShares)
	}
	return nil
}

// maxPrice of a card in an hour; beyond it sums would be no numbers any more.
const maxPrice = 1e12
