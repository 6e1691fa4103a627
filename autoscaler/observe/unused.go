package observe

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// unused is since when a holder has not computed on what it holds, as the
// exporter says; the zero value where it does not.
type unused struct {
	holder string
	since  time.Time
}

// by returns since when these holders have not used what they hold, zero where
// that is not known of exactly the one there is.
func (u unused) by(holders []string, measured bool) time.Time {
	if !measured || len(holders) != 1 || holders[0] != u.holder {
		return time.Time{}
	}
	return u.since
}

// stillMeasured returns a test for busy ratios of a reading: the idle time beside
// one counts only while the ratio is no older at now than all that is believed.
func (n *nodeReading) stillMeasured(now time.Time, maxAge time.Duration) func(sample.Value) bool {
	waited := max(0, now.Sub(n.taken))
	return func(busy sample.Value) bool {
		age, known := busy.Age()
		return known && age+waited <= maxAge
	}
}
