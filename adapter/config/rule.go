package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Rule is a signal of the user's own.
type Rule struct {
	Name    string         `json:"name"`
	Subject signal.Subject `json:"subject"`
	Sources []Source       `json:"sources"`
	// Identity are the labels that tell the parts of a pod apart.
	Identity    []string           `json:"identity,omitempty"`
	Duplicates  signal.Aggregation `json:"duplicates,omitempty"` // "max" if unset
	PerPod      signal.Aggregation `json:"perPod"`
	PerWorkload signal.Aggregation `json:"perWorkload"`
	// Minimum and Maximum bound what is believable: 0 and 1e9 if unset.
	Minimum *float64         `json:"minimum,omitempty"`
	Maximum *float64         `json:"maximum,omitempty"`
	MaxAge  *metav1.Duration `json:"maxAge,omitempty"`
	Window  metav1.Duration  `json:"window,omitempty"`
}

// Source is a series to read, in order of preference.
type Source struct {
	Metric   string    `json:"metric"`
	Over     string    `json:"over,omitempty"`
	Matchers []Matcher `json:"matchers,omitempty"`
	Scale    *float64  `json:"scale,omitempty"`
	// Tier of the source; its place in the list if unset. Sources of one tier
	// are taken together.
	Tier *int `json:"tier,omitempty"`
}

// Matcher is a label matcher as data, so that nothing is spliced into PromQL.
type Matcher struct {
	Label string `json:"label"`
	Op    string `json:"op"` // "=", "!=", "=~", "!~"
	Value string `json:"value"`
}

func (r Rule) signal(maxAge time.Duration) (signal.Rule, error) {
	out := signal.Rule{
		Name: r.Name, Subject: r.Subject, Identity: r.Identity,
		Duplicates: r.Duplicates, PerPod: r.PerPod, PerWorkload: r.PerWorkload,
		Minimum: 0, Maximum: 1e9, MaxAge: maxAge, Window: r.Window.Duration,
	}
	if out.Duplicates == "" {
		out.Duplicates = signal.Max
	}
	if r.Minimum != nil {
		out.Minimum = *r.Minimum
	}
	if r.Maximum != nil {
		out.Maximum = *r.Maximum
	}
	if r.MaxAge != nil {
		out.MaxAge = r.MaxAge.Duration
	}
	var errs []error
	for i, s := range r.Sources {
		source, err := s.signal(i)
		if err != nil {
			errs = append(errs, prefix(fmt.Sprintf("sources[%d]", i), err))
		}
		out.Sources = append(out.Sources, source)
	}
	return out, errors.Join(errs...)
}

func (s Source) signal(place int) (signal.Source, error) {
	out := signal.Source{Metric: s.Metric, Over: s.Over, Tier: place}
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
	for i, m := range s.Matchers {
		matcher, err := m.promql()
		if err != nil {
			errs = append(errs, fmt.Errorf("matchers[%d]: %w", i, err))
			continue
		}
		out.Matchers = append(out.Matchers, matcher)
	}
	return out, errors.Join(errs...)
}

func (m Matcher) promql() (*labels.Matcher, error) {
	ops := map[string]labels.MatchType{
		"=": labels.MatchEqual, "!=": labels.MatchNotEqual, "=~": labels.MatchRegexp, "!~": labels.MatchNotRegexp,
	}
	op, ok := ops[m.Op]
	if !ok {
		return nil, fmt.Errorf(`op: %q is not one of "=", "!=", "=~", "!~"`, m.Op)
	}
	if m.Label == "" || m.Label == labels.MetricName {
		return nil, fmt.Errorf("label: %q cannot be matched", m.Label)
	}
	return labels.NewMatcher(op, m.Label, m.Value)
}
