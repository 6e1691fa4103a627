package observe

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// unused is since when the pod that a device is allocated to has not computed on it, as reported by
// the exporter; zero if unknown.
type unused struct {
	pod   string
	since time.Time
}

// severalPods stands for more than one; it is no pod's name.
const severalPods = "/"

// and returns what two series about one device say: the later time if they are about the same pod.
func (u unused) and(other unused) unused {
	switch {
	case u.pod == "":
		return other
	case u.pod != other.pod:
		return unused{pod: severalPods}
	case other.since.After(u.since):
		return other
	}
	return u
}

// by returns since when the device has been unused, zero unless it is allocated to exactly the pod
// that was reported.
func (u unused) by(allocatedTo []string, measured bool) time.Time {
	if !measured || len(allocatedTo) != 1 || allocatedTo[0] != u.pod {
		return time.Time{}
	}
	return u.since
}

// stillMeasured returns a test for busy ratios of a reading. The idle time beside a ratio counts
// only while the ratio is no older than maxAge at now.
func (n *nodeReading) stillMeasured(now time.Time, maxAge time.Duration) func(sample.Value) bool {
	waited := max(0, now.Sub(n.taken))
	return func(busy sample.Value) bool {
		age, known := busy.Age()
		return known && age+waited <= maxAge
	}
}
