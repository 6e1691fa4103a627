package partition

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// LayoutAnnotation on a node is what its agent sees of the cards.
const LayoutAnnotation = "gpuscale.io/mig-layout"

// Report is an agent's view of a node's cards.
type Report struct {
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
	// Holder is a pod ("namespace/name"), or "pid N"; empty: nobody.
	Holder string `json:"holder,omitempty"`
	// Since when nobody holds it, as far as the agent has seen; nil while held.
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
		if _, err := c.Layout(nil); err != nil {
			return Report{}, fmt.Errorf("annotation %s: cards[%d]: %w", LayoutAnnotation, i, err)
		}
	}
	return r, nil
}

// Layout of the card; tables are what nodes have published. A card with a Problem
// has none, nor has one whose product nobody knows: only the error tells.
func (c CardReport) Layout(tables mig.Tables) (mig.Layout, error) {
	if c.Problem != "" || !c.MIG {
		return nil, nil
	}
	table, ok := tables.ForModel(c.Model)
	if !ok {
		return nil, nil
	}
	var words []byte
	for _, i := range c.Instances {
		words = append(append(words, i.Place...), ' ')
	}
	return mig.ParseLayout(table, string(words))
}

// String renders the annotation's text; equal reports give equal bytes.
func (r Report) String() string {
	b, err := json.Marshal(r)
	if err != nil {
		return "" // a time beyond year 9999; ParseReport refuses the result
	}
	return string(b)
}
