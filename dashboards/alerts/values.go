package alerts

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/trust"
)

// Values configure the alerts of an installation. The zero Values give the committed file.
type Values struct {
	// Programs that are installed; empty means all. Alerts of others are left out.
	Programs []metric.Owner `json:"programs,omitempty"`
	// Jobs are the scrape jobs by program, where they are not those of Jobs.
	Jobs map[metric.Owner]string `json:"jobs,omitempty"`
	// Namespaces of the targets that are trusted, sources.Namespaces where there is none; "*" trusts
	// every target.
	Namespaces []string `json:"namespaces,omitempty"`
	// Runbooks is the URL that the pages lie under, Runbooks' where it is empty.
	Runbooks string `json:"runbooks,omitempty"`
	// Labels of every alert: a team, a route.
	Labels map[string]string `json:"labels,omitempty"`
	// Alerts by name.
	Alerts map[string]Override `json:"alerts,omitempty"`
}

// Override changes an alert. Fields not set keep their defaults.
type Override struct {
	Enabled   *bool           `json:"enabled,omitempty"`
	Threshold *float64        `json:"threshold,omitempty"`
	For       *model.Duration `json:"for,omitempty"`
	Severity  Severity        `json:"severity,omitempty"`
}

// Runbooks is the public URL of docs/runbooks.
const Runbooks = "https://github.com/gpuscale/gpuscale/blob/main/docs/runbooks"

// longest For: Prometheus restores pending alerts for so long by default.
const longest = 14 * 24 * time.Hour

// Parse reads and validates Values as YAML. An unknown field is an error.
func Parse(text []byte) (Values, error) {
	var v Values
	if err := yaml.UnmarshalStrict(text, &v); err != nil {
		return Values{}, fmt.Errorf("reading values: %w", err)
	}
	return v, v.Validate()
}

var (
	labelName = regexp.MustCompile(`^_?[a-zA-Z][a-zA-Z0-9_]*$`)
	// Text put into a query between quotes must not contain what ends them.
	jobName = regexp.MustCompile(`^[^"\\\n\x00-\x1f]+$`)
)

// Validate returns all problems, each with the path of its field.
func (v Values) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	known := slices.Sorted(maps.Keys(Jobs()))
	for i, p := range v.Programs {
		if !slices.Contains(known, p) {
			wrong("programs[%d]: %q: want one of %q", i, p, known)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(v.Jobs)) {
		switch {
		case !slices.Contains(known, p):
			wrong("jobs: %q: want one of %q", p, known)
		case !jobName.MatchString(v.Jobs[p]):
			wrong("jobs.%s: %q: want a job's name, without quotes", p, v.Jobs[p])
		}
	}
	errs = append(errs, trust.Validate("namespaces", v.Namespaces)...)
	if u, err := url.Parse(v.Runbooks); err != nil {
		wrong("runbooks: %w", err)
	} else if u.RawQuery != "" || u.Fragment != "" || strings.Contains(v.Runbooks, "{{") {
		wrong("runbooks: %q: want a URL or a path that a page's name can be put behind", v.Runbooks)
	}
	for _, l := range slices.Sorted(maps.Keys(v.Labels)) {
		if !labelName.MatchString(l) || l == "severity" || l == "alertname" {
			wrong("labels: %q: want a label's name, not severity or alertname", l)
		}
		// A template would be expanded and be part of the alert's identity.
		if value := v.Labels[l]; !utf8.ValidString(value) || strings.Contains(value, "{{") {
			wrong("labels.%s: %q: want plain text", l, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Alerts)) {
		for _, err := range v.Alerts[name].problems(name) {
			wrong("alerts.%s%w", name, err)
		}
	}
	return errors.Join(errs...)
}

func (o Override) problems(name string) []error {
	a, ok := Find(name)
	if !ok {
		return []error{errors.New(": there is no such alert")}
	}
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Threshold != nil {
		switch n := *o.Threshold; {
		case a.Threshold == nil:
			wrong(".threshold: this alert has none")
		case math.IsNaN(n) || math.IsInf(n, 0) || n <= 0:
			wrong(".threshold: %v: want a number above 0", n)
		}
	}
	if o.For != nil && (*o.For < 0 || time.Duration(*o.For) > longest) {
		wrong(".for: %s: want 0s to %s", *o.For, model.Duration(longest))
	}
	if o.Severity != "" && !slices.Contains([]Severity{Critical, Warning, Info}, o.Severity) {
		wrong(".severity: %q: want %q, %q or %q", o.Severity, Critical, Warning, Info)
	}
	return errs
}

// apply returns the alert with the values applied, and whether it is enabled.
func (v Values) apply(a Alert) (Alert, bool) {
	o := v.Alerts[a.Name]
	if o.Threshold != nil {
		a.Threshold = o.Threshold
	}
	if o.For != nil {
		a.For = time.Duration(*o.For)
	}
	if o.Severity != "" {
		a.Severity = o.Severity
	}
	installed := a.Program == "" || len(v.Programs) == 0 || slices.Contains(v.Programs, a.Program)
	return a, (o.Enabled == nil || *o.Enabled) && installed
}

// jobs are the configured ones, and the default ones else.
func (v Values) jobs() map[metric.Owner]string {
	all := Jobs()
	maps.Copy(all, v.Jobs)
	return all
}

// trusted is the matcher of the targets that are trusted.
func (v Values) trusted() string {
	if len(v.Namespaces) == 0 {
		return sources.Matcher
	}
	return sources.Match(v.Namespaces)
}
