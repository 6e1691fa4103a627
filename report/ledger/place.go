package ledger

import (
	"fmt"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Place is where GPU time went: an index into metric.PlaceWords.
type Place int

// Places. The first four are held by a pod.
const (
	Busy Place = iota
	Slack
	Idle
	Unmeasured
	Free
	Fragmented
	Stranded
	Cordoned
	Cutting
	Booting
	Unready
	Sick
	Unknown

	NumPlaces
)

// String is the word of the label "place".
func (p Place) String() string {
	if p < 0 || p >= NumPlaces {
		return fmt.Sprintf("Place(%d)", int(p))
	}
	return metric.PlaceWords()[p]
}

// Held says whether a pod holds what is there.
func (p Place) Held() bool { return p <= Unmeasured }

func parsePlace(word string) (Place, bool) {
	for i, w := range metric.PlaceWords() {
		if w == word {
			return Place(i), true
		}
	}
	return Unknown, false
}

// Time is GPU time by place, in seconds of a whole card.
type Time [NumPlaces]float64

// Sum of all places.
func (t Time) Sum() float64 {
	sum := 0.0
	for _, v := range t {
		sum += v
	}
	return sum
}

// Held is what pods held.
func (t Time) Held() float64 { return t[Busy] + t[Slack] + t[Idle] + t[Unmeasured] }

func (t *Time) add(o Time) {
	for p := range t {
		t[p] += o[p]
	}
}

// Key is what a ledger tells apart. Tenant and Namespace are those of the holder,
// empty for what nobody holds; Pool and Tenant are empty where only the exporter
// has spoken, which knows neither.
type Key struct{ Pool, Model, Tenant, Namespace string }

// Row is the time of one key.
type Row struct {
	Key
	Time Time
}
