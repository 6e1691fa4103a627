package capacity

// Place is the use of GPU time. Every moment of every share of a GPU has
// exactly one.
type Place uint8

// Places. Allocated time goes to the first four, by the measured busy ratio: of
// an hour at 0.3, 0.3 are in Busy and 0.7 in Slack.
const (
	Busy       Place = iota // allocated, and computing
	Slack                   // allocated and in use, the time it does not compute
	Idle                    // allocated and hardly used, the time it does not compute
	Unmeasured              // allocated, use unknown
	InFree                  // from here on, the states of the same name
	InFragmented
	InStranded
	InCordoned
	InRepartitioning
	InBooting
	InUnready
	InSick
	InUnknown // allocation unknown, or not observed

	NumPlaces
)

var placeNames = [NumPlaces]string{
	Busy: "busy", Slack: "slack", Idle: "idle", Unmeasured: "unmeasured", InFree: "free", InFragmented: "fragmented",
	InStranded: "stranded", InCordoned: "cordoned", InRepartitioning: "repartitioning", InBooting: "booting",
	InUnready: "unready", InSick: "sick", InUnknown: "unknown",
}

// String returns the word used in labels.
func (p Place) String() string {
	if p < NumPlaces {
		return placeNames[p]
	}
	return "no place"
}

// OfPod reports whether the place is time allocated to pods on GPUs in service.
func (p Place) OfPod() bool { return p <= Unmeasured }

// placeOf maps the states other than Allocated to their places.
var placeOf = [NumStates]Place{
	Free: InFree, Allocated: Unmeasured, Fragmented: InFragmented, Stranded: InStranded, Cordoned: InCordoned, Repartitioning: InRepartitioning,
	Unknown: InUnknown, Booting: InBooting, Unready: InUnready, Sick: InSick,
}

// Time is GPU time: shares of a GPU × milliseconds. It is a whole number, so
// that sums are exact.
type Time int64
