package ledger

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Place says how GPU time was used. It is an index into metric.PlaceWords.
type Place int

// Places. The first four are allocated to a pod.
const (
	Busy Place = iota
	Slack
	Idle
	Unmeasured
	Free
	Fragmented
	Stranded
	Cordoned
	Repartitioning
	Booting
	Unready
	Sick
	Unknown

	NumPlaces
)

// String returns the value of the label "place".
func (p Place) String() string { return metric.PlaceWords()[p] }

// Allocated reports whether the place is allocated to a pod.
func (p Place) Allocated() bool { return p <= Unmeasured }

func parsePlace(word string) (Place, bool) {
	at := slices.Index(metric.PlaceWords(), word)
	return Place(at), at >= 0
}

// Time is GPU time by place, in seconds of a whole GPU.
type Time [NumPlaces]float64

// Sum of all places.
func (t Time) Sum() float64 {
	sum := 0.0
	for _, v := range t {
		sum += v
	}
	return sum
}

// Allocated is the time allocated to pods.
func (t Time) Allocated() float64 { return t[Busy] + t[Slack] + t[Idle] + t[Unmeasured] }

// Dark reports whether GPUs were allocated and the use of all of them is unknown.
func (t Time) Dark() bool { return t[Unmeasured] > 0 && t.Allocated() == t[Unmeasured] }

// Add adds another time in each place.
func (t *Time) Add(o Time) {
	for p := range t {
		t[p] += o[p]
	}
}

// Key identifies a row. Tenant and Namespace are the pod's; they are empty for time that is not allocated.
// Pool and Tenant are empty where only the exporter has a record.
type Key struct{ Pool, Model, Tenant, Namespace string }

// Row is the time of one key.
type Row struct {
	Key
	Time Time
}
