package capacity

import "strconv"

// Place is where a GPU-hour went. Every moment of every share of a GPU has
// exactly one.
type Place uint8

// Places. What pods hold goes to the first four, by its measured busy ratio: of an
// hour at 0.3 there are 0.3 in Busy and 0.7 in Slack.
const (
	Busy       Place = iota // held, and computing
	Slack                   // allocated to something that computes, the rest of its time
	Idle                    // allocated to something that hardly computes at all, the rest of its time
	Unmeasured              // held, use unknown
	InFree                  // the rest is as the states are
	InFragmented
	InStranded
	InCordoned
	InRepartitioning
	InBooting
	InUnready
	InSick
	InUnknown // nobody knew who held it, or nobody looked

	NumPlaces
)

var placeNames = [NumPlaces]string{
	Busy: "busy", Slack: "allocated, not computing", Idle: "allocated, idle", Unmeasured: "allocated, use unknown", InFree: "free",
	InFragmented: "fragmented", InStranded: "stranded", InCordoned: "cordoned", InRepartitioning: "repartitioning", InBooting: "booting",
	InUnready: "unready", InSick: "sick", InUnknown: "unknown",
}

// Label returns the word used in labels: "busy", "slack", "idle", "unmeasured", and
// for the others the state's.
func (p Place) Label() string {
	switch p {
	case Slack:
		return "slack"
	case Idle:
		return "idle"
	case Unmeasured:
		return "unmeasured"
	}
	return p.String()
}

// OfPod reports whether the place is of what pods hold on GPUs in service.
func (p Place) OfPod() bool { return p <= Unmeasured }

// String returns the words used in tables.
func (p Place) String() string {
	if p < NumPlaces {
		return placeNames[p]
	}
	return "no place"
}

// placeOf maps the states other than Held to their places.
var placeOf = [NumStates]Place{
	Free: InFree, Held: Unmeasured, Fragmented: InFragmented, Stranded: InStranded, Cordoned: InCordoned, Repartitioning: InRepartitioning,
	Unknown: InUnknown, Booting: InBooting, Unready: InUnready, Sick: InSick,
}

// Time is GPU time: shares of a GPU × milliseconds. It is a whole number, so
// that adding up loses nothing.
type Time int64

// hour is a GPU for an hour.
const hour = GPUShares * 3600 * 1000

// Hours returns the time in hours of whole GPUs.
func (t Time) Hours() float64 { return float64(t) / hour }

// String returns hours of whole GPUs: "1.5h".
func (t Time) String() string { return strconv.FormatFloat(t.Hours(), 'f', -1, 64) + "h" }
