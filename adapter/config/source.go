package config

import (
	"errors"
	"fmt"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Source is a series to read, in order of preference.
type Source struct {
	Metric string `json:"metric"`
	// Form: unset for the plain value, "rate" of a counter, "quantile" of a
	// histogram.
	Form     signal.Form `json:"form,omitempty"`
	Quantile float64     `json:"quantile,omitempty"`
	Over     string      `json:"over,omitempty"`
	Matchers []Matcher   `json:"matchers,omitempty"`
	// Without are labels that Prometheus sums away.
	Without []string `json:"without,omitempty"`
	Scale   *float64 `json:"scale,omitempty"`
	// Tier of the source; its index in the list if unset. Sources of one tier
	// are combined.
	Tier *int `json:"tier,omitempty"`
	// Server is the value of the label "gpuscale_source", by which requests can
	// select the source's series.
	Server string `json:"server,omitempty"`
	// Identity in place of the rule's.
	Identity []string `json:"identity,omitempty"`
	// Gateway: the series is a gateway's, about requests its servers count too.
	Gateway bool `json:"gateway,omitempty"`
	// GatewayLabel is a label whose presence makes a series a gateway's.
	GatewayLabel string `json:"gatewayLabel,omitempty"`

	// Fleeting: the parts of a pod come and go while it serves. Page is a series that
	// the same target always has: it shows a later scrape where no part is left.
	Fleeting bool    `json:"fleeting,omitempty"`
	Page     *Series `json:"page,omitempty"`

	Idle   *Idle   `json:"idle,omitempty"`
	Absent *Absent `json:"absent,omitempty"`
}

// Idle is what NaN means while the series named are 0 in the whole window.
type Idle struct {
	Value float64  `json:"value"`
	While []Series `json:"while,omitempty"`
	// By are labels by which the parts of a pod are idle each by itself.
	By []string `json:"by,omitempty"`
	// Progress is a counter whose growth shows, while the first of While is 0, that
	// nothing waits.
	Progress *Series `json:"progress,omitempty"`
}

// Absent is what a missing series means while another is there.
type Absent struct {
	Value float64  `json:"value"`
	While Series   `json:"while"`
	Is    *float64 `json:"is,omitempty"`
	// Label is added to the other series, with the value of its label From.
	Label string `json:"label,omitempty"`
	From  string `json:"from,omitempty"`
}

// Series selects series by name and labels.
type Series struct {
	Metric   string    `json:"metric"`
	Matchers []Matcher `json:"matchers,omitempty"`
}

func (s Series) signal() (signal.Series, error) {
	m, err := matchers(s.Matchers)
	return signal.Series{Metric: s.Metric, Matchers: m}, err
}

func (s Source) signal(place int) (signal.Source, error) {
	out := signal.Source{
		Metric: s.Metric, Form: s.Form, Quantile: s.Quantile, Over: s.Over, Tier: place,
		Server: s.Server, Identity: s.Identity, Gateway: s.Gateway, GatewayLabel: s.GatewayLabel, Fleeting: s.Fleeting, Without: s.Without,
	}
	if s.Tier != nil {
		out.Tier = *s.Tier
	}
	var errs []error
	if s.Scale != nil {
		if *s.Scale == 0 {
			errs = append(errs, errors.New("scale: zero would hide every value"))
		}
		out.Scale = *s.Scale
	}
	var err error
	if out.Matchers, err = matchers(s.Matchers); err != nil {
		errs = append(errs, err)
	}
	if s.Page != nil {
		page, err := s.Page.signal()
		if err != nil {
			errs = append(errs, prefix("page", err))
		}
		out.Page = &page
	}
	if s.Idle != nil {
		if out.Idle, err = s.Idle.signal(); err != nil {
			errs = append(errs, prefix("idle", err))
		}
	}
	if s.Absent != nil {
		if out.Absent, err = s.Absent.signal(); err != nil {
			errs = append(errs, prefix("absent.while", err))
		}
	}
	return out, errors.Join(errs...)
}

func (i Idle) signal() (*signal.Idle, error) {
	out := &signal.Idle{Value: i.Value, By: i.By}
	var errs []error
	if i.Progress != nil {
		series, err := i.Progress.signal()
		if err != nil {
			errs = append(errs, prefix("progress", err))
		}
		out.Progress = &series
	}
	for n, s := range i.While {
		series, err := s.signal()
		if err != nil {
			errs = append(errs, prefix(fmt.Sprintf("while[%d]", n), err))
		}
		out.While = append(out.While, series)
	}
	return out, errors.Join(errs...)
}

func (a Absent) signal() (*signal.Absent, error) {
	while, err := a.While.signal()
	return &signal.Absent{Value: a.Value, While: while, Is: a.Is, Label: a.Label, From: a.From}, err
}
