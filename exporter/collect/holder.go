package collect

import (
	"strings"
	"time"
)

// Holder is a container that was given a card, an instance or a share of one.
type Holder struct {
	Namespace, Pod, Container string
}

// Hold says how a Holder holds an entity and what it does with it.
type Hold struct {
	// Shares are the names of the shares given, "0" of "GPU-…::0": more than one
	// where a container was given several of one card. Empty for the whole.
	Shares []string
	// Claim is set where the entity came by dynamic resource allocation.
	Claim Claim
	// Busy is what the holder's processes compute, 0 … 1 of the entity, and
	// Memory the bytes they hold there: as the driver says it of each process.
	Busy, Memory Measured
}

// Claim is a DRA claim and the device it got.
type Claim struct {
	Name, Namespace      string
	Driver, Pool, Device string
	MIGProfile, MIGUUID  string // of a MIG device
}

// Measured is a number with its time. Without a time it is not known.
type Measured struct {
	Number float64
	Time   time.Time
}

// Known reports whether it was measured.
func (m Measured) Known() bool { return !m.Time.IsZero() }

// Attribution says who holds the entities of one Reading. The zero Attribution
// says that nobody knows.
type Attribution struct {
	// Taken is when the kubelet said so; zero where it never did.
	Taken time.Time
	// Holders[i] hold Entities[i] of the Reading; sorted, without duplicates.
	// More than one share it.
	Holders [][]Holder
	// Holds[i][j] says more of Holders[i][j]; nil where nothing more is known.
	Holds [][]Hold
	// Extras are labels of the DCGM series that flags ask for.
	Extras Extras
}

// of returns the holders of entity i.
func (a Attribution) of(i int) []Holder {
	if i >= len(a.Holders) {
		return nil
	}
	return a.Holders[i]
}

// hold returns what is known of holder j of entity i.
func (a Attribution) hold(i, j int) Hold {
	if i >= len(a.Holds) || j >= len(a.Holds[i]) {
		return Hold{}
	}
	return a.Holds[i][j]
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
