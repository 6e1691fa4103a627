package collect

import (
	"strings"
	"time"
)

// Allocation is a container to which a GPU, an instance or a share of one is
// allocated.
type Allocation struct {
	Namespace, Pod, Container string
}

// Usage describes an Allocation of an entity: shares, claim and measured use.
type Usage struct {
	// Shares are the names of the allocated shares, "0" of "GPU-…::0"; several
	// of one GPU are possible. Empty for the whole.
	Shares []string
	// Claim is set where the entity is allocated by dynamic resource
	// allocation.
	Claim Claim
	// Busy is what the container's processes compute, 0 … 1 of the entity, and
	// Memory the bytes they use: sums of the driver's values per process.
	Busy, Memory Measured
}

// Allocated is an allocation and what is known of it.
type Allocated struct {
	Allocation
	Usage
}

// Claim is a DRA claim and the device it got.
type Claim struct {
	Name, Namespace      string
	Driver, Pool, Device string
	MIGProfile, MIGUUID  string // of a MIG device
}

// Measured is a number with its time; unknown without a time.
type Measured struct {
	Number float64
	Time   time.Time
}

// Known reports whether it was measured.
func (m Measured) Known() bool { return !m.Time.IsZero() }

// Attribution maps the entities of one Reading to the containers they are
// allocated to. The zero Attribution is unknown.
type Attribution struct {
	// Taken is the time of the kubelet's answer; zero before the first.
	Taken time.Time
	// Allocations[i] are those of Entities[i] of the Reading; sorted, without
	// duplicates. Several share the entity.
	Allocations [][]Allocated
	// Pods has further label text of pods' DCGM series, from PodLabels.
	Pods map[PodName]string
	// Jobs are the batch jobs on GPUs and instances: each DCGM series is repeated
	// for every job, as dcgm-exporter does.
	Jobs map[JobPlace][]string
}

// labels renders a claim as dcgm-exporter's dra_* labels, for the DCGM series.
func (c Claim) labels() string {
	if c == (Claim{}) {
		return ""
	}
	b := appendLabel(nil, "dra_claim_name", c.Name)
	b = appendLabel(b, "dra_claim_namespace", c.Namespace)
	b = appendLabel(b, "dra_driver_name", c.Driver)
	b = appendLabel(b, "dra_pool_name", c.Pool)
	b = appendLabel(b, "dra_device_name", c.Device)
	b = appendLabel(b, "dra_mig_profile", c.MIGProfile)
	return string(appendLabel(b, "dra_mig_device_uuid", c.MIGUUID))
}

// joinLabels joins rendered label texts, of which any may be empty.
func joinLabels(texts ...string) string {
	var some []string
	for _, t := range texts {
		if t != "" {
			some = append(some, t)
		}
	}
	return strings.Join(some, ",")
}
