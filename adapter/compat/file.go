package compat

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/prometheus-adapter/pkg/config"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/strict"
)

// File is a prometheus-adapter configuration.
type File struct {
	Name string
	// Rules are the custom ones, then the external ones.
	Rules []*Rule
	// ResourceRules: the file has resourceRules. They are for metrics.k8s.io and are
	// not read.
	ResourceRules bool
	// Problems of the file itself.
	Problems []strict.Problem
}

// Err joins the problems in order of their lines; nil if there is none.
func (f *File) Err() error { return strict.Join(f.problems()) }

func (f *File) problems() []strict.Problem {
	all := slices.Clone(f.Problems)
	for _, r := range f.Rules {
		all = append(all, r.Problems...)
	}
	return all
}

// good are the rules without problems.
func (f *File) good() []*Rule {
	return slices.DeleteFunc(slices.Clone(f.Rules), func(r *Rule) bool { return len(r.Problems) > 0 })
}

// Parse reads a file; name is for its problems. An error means that nothing of
// it can be used. Like v0.12.0 it reads the first document only.
func Parse(name string, raw []byte) (*File, error) {
	d, err := strict.Parse(name, raw)
	if err != nil {
		// v0.12.0's older library reports the line of the error, the newer one the
		// line where the list begins.
		var ignored any
		if older := yamlv2.Unmarshal(raw, &ignored); older != nil && len(raw) <= strict.MaxFileBytes {
			err = fmt.Errorf("%s: no YAML: %w (put text that contains double quotes in single quotes)", name, older)
		}
		return nil, err
	}
	f := &File{Name: name}
	f.Problems = d.Fields(d.Root, "", &struct{}{}, "rules", "externalRules", "resourceRules")
	_, theirs := strict.Entry(d.Root, "resourceRules")
	f.ResourceRules = !strict.Null(strict.Resolve(theirs))
	f.read(d, "rules", false)
	f.read(d, "externalRules", true)
	return f, nil
}

// read reads a list of rules, each on its own.
func (f *File) read(d *strict.Document, field string, external bool) {
	list, problems := d.List(field)
	f.Problems = append(f.Problems, problems...)
	for i, item := range list {
		at := fmt.Sprintf("%s[%d]", field, i)
		var raw config.DiscoveryRule
		problems := d.Fields(item, at, &raw)
		r, err := compile(raw, external)
		if len(problems) == 0 {
			problems = d.Problems(strict.Resolve(item), at, err)
		}
		r.ID, r.File, r.Line, r.Problems = at, f.Name, item.Line, problems
		f.Rules = append(f.Rules, r)
	}
}

// Options name the file and replace v0.12.0's flags. Nothing is served unless
// ConfigFile is set.
type Options struct {
	// ConfigFile is prometheus-adapter's own configuration file.
	ConfigFile string `json:"configFile,omitempty"`
	// Backend to query; the default one if empty.
	Backend string `json:"backend,omitempty"`
	// RelistInterval is --metrics-relist-interval: how often the series are
	// listed. 10m if zero.
	RelistInterval time.Duration `json:"relistInterval,omitempty"`
	// SeriesAge is --metrics-max-age: how far back discovery looks for series.
	// RelistInterval if zero.
	SeriesAge time.Duration `json:"seriesAge,omitempty"`
	// MaxAge is the age beyond which a sample is missing; v0.12.0 has no limit.
	// 5m if zero: Prometheus' own lookback, so that what v0.12.0 sees is served.
	MaxAge time.Duration `json:"maxAge,omitempty"`
}

// Enabled reports whether there is a file to serve.
func (o Options) Enabled() bool { return o.ConfigFile != "" }

// WithDefaults sets the defaults of zero fields.
func (o Options) WithDefaults() Options {
	o.RelistInterval = cmp.Or(o.RelistInterval, 10*time.Minute)
	o.SeriesAge = cmp.Or(o.SeriesAge, o.RelistInterval)
	o.MaxAge = cmp.Or(o.MaxAge, signal.Lookback)
	return o
}

// Validate returns all problems, each with its field. It reads no file.
func (o Options) Validate() error {
	var errs []error
	for name, d := range map[string]time.Duration{"relistInterval": o.RelistInterval, "seriesAge": o.SeriesAge, "maxAge": o.MaxAge} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s: must not be negative", name))
		}
	}
	o = o.WithDefaults()
	if o.SeriesAge < o.RelistInterval {
		errs = append(errs, errors.New("seriesAge: must not be shorter than relistInterval"))
	}
	return errors.Join(errs...)
}
