package collect

import "time"

// Holder is a container that was given a card, an instance or a share of one.
type Holder struct {
	Namespace, Pod, Container string
}

// Attribution says who holds the entities of one Reading. The zero Attribution
// says that nobody knows.
type Attribution struct {
	// Taken is when the kubelet said so; zero where it never did.
	Taken time.Time
	// Holders[i] hold Entities[i] of the Reading; sorted, without duplicates.
	// More than one share it.
	Holders [][]Holder
}

// of returns the holders of entity i.
func (a Attribution) of(i int) []Holder {
	if i >= len(a.Holders) {
		return nil
	}
	return a.Holders[i]
}
