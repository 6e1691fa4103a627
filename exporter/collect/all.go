package collect

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// family is one of our metric families and how a Moment gives its samples.
type family struct {
	desc metric.Desc
	// aging families show the age of their samples' time at the moment of the
	// scrape, whatever number was added, and do not go stale: they are what
	// tells that the others did.
	aging   bool
	collect func(m *Moment, d *metric.Desc, add adder)
}

// adder takes one sample. The label text is a family's d rendered by a subject.
type adder func(labels string, value float64, taken time.Time)

// all lists our families in the order in which they are served.
func all() []family {
	return []family{
		info(), instanceInfo(), held(),
		busyRatio(), instanceBusyRatio(), shareRatio(),
		memoryUsed(), memoryTotal(),
		power(), energy(), busySeconds(), throttleSeconds(),
		idle(), healthy(), xidErrors(),
		sampleAge(), attributionAge(),
	}
}
