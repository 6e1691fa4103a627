package partition

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// LayoutAnnotation on a node is what its agent sees of the cards.
const LayoutAnnotation = "gpuscale.io/mig-layout"

// A report that has not changed is written again after ReportEvery, as kubelet
// does with a node's status, and is too old to count after ReportMaxAge: one
// that came too late is forgiven, two are not.
const (
	ReportEvery  = 5 * time.Minute
	ReportMaxAge = 12 * time.Minute
)

// Report is an agent's view of a node's cards.
type Report struct {
	// At is when the cards were last looked at, on the node's clock, give or take
	// ReportEvery: it alone is no reason to write.
	At time.Time `json:"at,omitzero"`
	// Node is the UID of the Node object and Boot the boot of the machine that this
	// is about: instances do not outlive a boot.
	Node string `json:"node,omitempty"`
	Boot string `json:"boot,omitempty"`

	Driver string       `json:"driver,omitempty"`
	Cards  []CardReport `json:"cards"`
	// Problem keeps the agent from changing anything; empty when nothing does.
	Problem string `json:"problem,omitempty"`
}

// CardReport is one card.
type CardReport struct {
	Index int    `json:"index"` // as the driver counts
	UUID  string `json:"uuid,omitempty"`
	Model string `json:"model,omitempty"`
	MIG   bool   `json:"mig,omitempty"`
	// Instances by their first memory slice.
	Instances []InstanceReport `json:"instances,omitempty"`
	// Problem with the card: the rest is then unknown, not empty.
	Problem string `json:"problem,omitempty"`
}

// InstanceReport is one GPU instance.
type InstanceReport struct {
	// Place in slices, as mig.Placement prints it: "3g@0:4".
	Place string `json:"place"`
	UUID  string `json:"uuid,omitempty"`
	// Holder is a pod ("namespace/name"), or "pid N". Where it is empty and Since is
	// set nobody holds it; without Since it is not known.
	Holder string `json:"holder,omitempty"`
	// Since when nobody holds it, as far as the agent has seen.
	Since *time.Time `json:"since,omitempty"`
}

// Bounds of what an annotation is believed to say.
const (
	maxReportBytes = 64 << 10
	maxReportCards = 64
	maxReportCuts  = 16
)

// ParseReport reads the annotation's text. The error names the card.
func ParseReport(text string) (Report, error) {
	if len(text) > maxReportBytes {
		return Report{}, fmt.Errorf("annotation %s: %d bytes, at most %d", LayoutAnnotation, len(text), maxReportBytes)
	}
	var r Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Report{}, fmt.Errorf("annotation %s: %w", LayoutAnnotation, err)
	}
	if len(r.Cards) > maxReportCards {
		return Report{}, fmt.Errorf("annotation %s: %d cards, at most %d", LayoutAnnotation, len(r.Cards), maxReportCards)
	}
	seen := map[int]bool{}
	for i, c := range r.Cards {
		if c.Index < 0 || c.Index >= maxReportCards || seen[c.Index] || len(c.Instances) > maxReportCuts {
			return Report{}, fmt.Errorf("annotation %s: cards[%d]: index %d with %d instances: want each index once, below %d, with at most %d",
				LayoutAnnotation, i, c.Index, len(c.Instances), maxReportCards, maxReportCuts)
		}
		seen[c.Index] = true
		if _, _, err := c.Layout(nil); err != nil {
			return Report{}, fmt.Errorf("annotation %s: cards[%d]: %w", LayoutAnnotation, i, err)
		}
	}
	return r, nil
}

// Layout of the card, empty for one that is not cut; known is false for a card
// with a Problem. tables are what nodes have published. The error says why no card
// can be cut so; of a product that nobody knows only the slices are looked at.
func (c CardReport) Layout(tables mig.Tables) (l mig.Layout, known bool, err error) {
	if c.Problem != "" {
		return nil, false, nil
	}
	if !c.MIG {
		if len(c.Instances) > 0 {
			return nil, false, errors.New("instances without MIG")
		}
		return nil, true, nil
	}
	var words []byte
	for _, i := range c.Instances {
		words = append(append(words, i.Place...), ' ')
	}
	if l, err = mig.ParseSlices(string(words)); err != nil {
		return nil, false, err
	}
	if len(l) != len(c.Instances) {
		return nil, false, fmt.Errorf("%d instances at %d places", len(c.Instances), len(l))
	}
	if table, ok := tables.ForModel(c.Model); ok {
		err = table.Legal(l)
	}
	return l, err == nil, err
}

// GFD's node labels of the driver: the whole version, or its three numbers.
const driverLabel = "nvidia.com/cuda.driver-version.full"

var driverLabels = [3]string{"nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev"}

// driverOf is the driver's version by the node's labels, empty where they do not say.
func driverOf(node *corev1.Node) string {
	if v := node.Labels[driverLabel]; v != "" {
		return v
	}
	major, minor, rev := node.Labels[driverLabels[0]], node.Labels[driverLabels[1]], node.Labels[driverLabels[2]]
	switch {
	case major == "" || minor == "":
		return ""
	case rev == "":
		return major + "." + minor
	}
	return major + "." + minor + "." + rev
}

// Stale says why a report on node must not be believed at now, nil for nothing: it
// is old, or about another Node object, boot or driver.
func (r Report) Stale(node *corev1.Node, now time.Time) error {
	stale := func(format string, args ...any) error {
		return fmt.Errorf("annotation %s: %s", LayoutAnnotation, fmt.Sprintf(format, args...))
	}
	boot, driver := node.Status.NodeInfo.BootID, driverOf(node)
	switch age := now.Sub(r.At); {
	case r.Node != string(node.UID):
		return stale("is about node UID %q, not %q", r.Node, node.UID)
	case boot != "" && r.Boot != boot:
		return stale("is about boot %q, not %q", r.Boot, boot)
	case driver != "" && r.Driver != "" && r.Driver != driver:
		return stale("is about driver %s, not %s", r.Driver, driver)
	case age > ReportMaxAge || age < -ReportMaxAge:
		return stale("is of %s, at most %s are believed either way", r.At.UTC().Format(time.RFC3339), ReportMaxAge)
	}
	return nil
}

// AgentReady says why the agent of a node cannot be given an operation on a card at
// now, nil for nothing: none has reported lately, or what it reports keeps it from
// changing anything.
func AgentReady(node *corev1.Node, uuid string, now time.Time) error {
	text := node.Annotations[LayoutAnnotation]
	if text == "" {
		return errors.New("no agent has reported on it: does gpuscale-agent run there?")
	}
	r, err := ParseReport(text)
	if err != nil {
		return err
	}
	if err := r.Stale(node, now); err != nil {
		return err
	}
	if r.Problem != "" {
		return fmt.Errorf("its agent may not change anything: %s", r.Problem)
	}
	for _, c := range r.Cards {
		switch {
		case c.UUID != uuid:
		case c.Problem != "":
			return fmt.Errorf("card %d: %s", c.Index, c.Problem)
		default:
			return nil
		}
	}
	return fmt.Errorf("its agent has no card %q", uuid)
}

// Same reports whether two reports say the same of the same cards; At may differ.
func (r Report) Same(o Report) bool {
	r.At, o.At = time.Time{}, time.Time{}
	return r.String() == o.String()
}

// String renders the annotation's text; equal reports give equal bytes.
func (r Report) String() string {
	b, err := json.Marshal(r)
	if err != nil {
		return "" // a time beyond year 9999; ParseReport refuses the result
	}
	return string(b)
}
