package metric

// Type is the Prometheus type of a series.
type Type string

// Types.
const (
	Gauge     Type = "gauge"
	Counter   Type = "counter"
	Histogram Type = "histogram"
)

// Unit of a value; base units only. A name ends in its unit.
type Unit string

// Units. Info is the unit of series that are always 1 and carry their information
// in labels, Bool of those that are 0 or 1, None of plain counts.
const (
	Seconds Unit = "seconds"
	Bytes   Unit = "bytes"
	Ratio   Unit = "ratio"
	Watts   Unit = "watts"
	Joules  Unit = "joules"
	Celsius Unit = "celsius"
	Info    Unit = "info"
	Bool    Unit = "bool"
	None    Unit = ""
)

// Stability is the promise about a series' name and meaning.
type Stability string

// Stabilities.
const (
	Alpha  Stability = "alpha"  // may change in any release
	Stable Stability = "stable" // renamed only with both names served for a year
)

// Owner is the program that emits a series.
type Owner string

// Owners.
const (
	Exporter   Owner = "exporter"
	Autoscaler Owner = "autoscaler"
	Adapter    Owner = "adapter"
)

// Desc describes one series.
type Desc struct {
	Name string
	Help string
	Type Type
	Unit Unit
	// Labels that are always present, in the order of the exposition.
	Labels []string
	// Optional labels: absent, never empty, where they do not apply.
	Optional  []string
	Stability Stability
	Owner     Owner
}

// AllLabels returns Labels, then Optional, as a new slice.
func (d Desc) AllLabels() []string {
	all := make([]string, 0, len(d.Labels)+len(d.Optional))
	return append(append(all, d.Labels...), d.Optional...)
}
