package view

import (
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// Figures are the numbers of one moment.
type Figures struct {
	At             time.Duration // wall time since the traffic began
	Rate           sample.Value  // requests a second, traffic time
	Queue          sample.Value  // requests waiting
	TTFT           sample.Value  // p95, seconds, traffic time
	Replicas       sample.Value  // that exist
	Wanted         sample.Value  // as the HPA wants them
	Slices         []Slices
	Nodes          sample.Value // GPU nodes of the pools that are ready
	Booting        sample.Value // nodes that are not ready yet, in addition
	Repartitioning sample.Value // nodes among Nodes that are being repartitioned
	PricePerHour   sample.Value
}

// Slices are the devices of one kind that are allocatable in the fleet.
type Slices struct {
	Name             string // "3g.40gb", "gpu" for whole GPUs
	Allocated, Total int
}

// Decision of a controller.
type Decision struct {
	At      time.Duration
	What    string // "repartition", "scale up"
	Subject string // "h100-mig-b/gpu1", "h100-mig 2→3"
	Reason  string // one word of the vocabulary
	Detail  string
}

// Summary of a run.
type Summary struct {
	Requests       int
	WaitP95        sample.Value // seconds, traffic time
	PendingSeconds sample.Value // pod-seconds without a node
	ByRepartition  sample.Value // seconds from the first pending pod to the first capacity
	ByNode         sample.Value
	GPUHours       sample.Value // of the pools' GPUs
	Busy           sample.Value // share of them that was busy, 0 … 1
	WrongDowns     sample.Value
	Alerts         Alerts
	Length         time.Duration
	Took           []Stage
}

// Alerts of a run. They are unknown if Prometheus does not answer.
type Alerts struct {
	Known   bool
	Fired   []Alert // fired at any time
	Pending []Alert // pending at the end: true, but not for long enough
}

// Alert of Prometheus.
type Alert struct {
	Name, Severity string
}

// Stage is an expectation of the run, with the time when it was met.
type Stage struct {
	Name string
	At   time.Duration
}
