package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v2"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/node"
)

// configFile is dcgm-exporter's YAML configuration: which metrics, and how often they are
// sampled. Version 1 has a collection with watch groups, version 2 has collections, of which
// the one of all metrics is the base.
type configFile struct {
	Version int `yaml:"version"`
	Metrics struct {
		File   string `yaml:"file"`
		Fields []struct {
			Name           string `yaml:"name"`
			PrometheusType string `yaml:"prometheusType"`
			Help           string `yaml:"help"`
		} `yaml:"fields"`
		EnableExporterMetrics *bool `yaml:"enableExporterMetrics"`
	} `yaml:"metrics"`
	Server struct {
		MaxConcurrentScrapes *int `yaml:"maxConcurrentScrapes"`
	} `yaml:"server"`
	Sources    *dcgmSource `yaml:"sources"`
	Collection *struct {
		Interval    string     `yaml:"interval"`
		Retention   *retention `yaml:"retention"`
		WatchGroups []struct {
			Name      string     `yaml:"name"`
			Interval  string     `yaml:"interval"`
			Fields    []string   `yaml:"fields"`
			Retention *retention `yaml:"retention"`
		} `yaml:"watchGroups"`
	} `yaml:"collection"`
	Collections []struct {
		Name    string `yaml:"name"`
		Every   string `yaml:"every"`
		Metrics struct {
			Include []string `yaml:"include"`
		} `yaml:"metrics"`
		Sources *dcgmSource `yaml:"sources"`
	} `yaml:"collections"`
}

// What has no effect here, as its flags have none: how long DCGM keeps samples, and whether
// GPUs that come and go are looked for.
type (
	retention struct {
		MaxAge     string `yaml:"maxAge"`
		MaxSamples int64  `yaml:"maxSamples"`
	}
	dcgmSource struct {
		DCGM struct {
			Watch struct {
				MaxKeepAge     string `yaml:"maxKeepAge"`
				MaxKeepSamples int64  `yaml:"maxKeepSamples"`
			} `yaml:"watch"`
			DetectBindUnbind struct {
				Enabled      bool   `yaml:"enabled"`
				PollInterval string `yaml:"pollInterval"`
			} `yaml:"detectBindUnbind"`
		} `yaml:"dcgm"`
	}
)

// watchGroup is fields, by patterns of their names, with an interval of their own.
type watchGroup struct {
	name     string
	every    time.Duration
	patterns []string
}

// maxConfigFile bounds the file: dcgm-exporter's own has a few hundred lines.
const maxConfigFile = 1 << 20

// readConfigFile takes what no flag and no variable says. It returns all problems.
func (c *config) readConfigFile(given func(flag string) bool) []error {
	text, err := os.ReadFile(c.configFile)
	switch {
	case err != nil:
		return []error{fmt.Errorf("--config-file: %w", err)}
	case len(text) > maxConfigFile:
		return []error{fmt.Errorf("--config-file: %s is longer than %d bytes", c.configFile, maxConfigFile)}
	}
	var f configFile
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.SetStrict(true)
	err = d.Decode(&f)
	if errors.Is(err, io.EOF) {
		err = nil // an empty file, without its version
	} else if err == nil && !errors.Is(d.Decode(new(any)), io.EOF) {
		err = errors.New("there is more than one YAML document")
	}
	if err != nil {
		return []error{fmt.Errorf("--config-file: %s: %w", c.configFile, err)}
	}
	return c.take(&f, given)
}

func (c *config) take(f *configFile, given func(flag string) bool) []error {
	var problems []error
	problem := func(at, format string, args ...any) {
		problems = append(problems, fmt.Errorf("--config-file: "+c.configFile+": "+at+": "+format, args...))
	}
	c.takeIntervals(f, given, problem)
	if on := f.Metrics.EnableExporterMetrics; on != nil && !given("enable-exporter-metrics") {
		c.exporterMetrics = *on
	}
	if n := f.Server.MaxConcurrentScrapes; n != nil && !given("max-concurrent-scrapes") {
		if c.maxScrapes = *n; *n <= 0 {
			problem("server.maxConcurrentScrapes", "%d, want more than 0", *n)
		}
	}
	if f.Metrics.File != "" && len(f.Metrics.Fields) > 0 {
		problem("metrics", "file and fields exclude each other")
	}
	if given("collectors") || given("configmap-data") {
		return problems
	}
	c.countersFile = f.Metrics.File
	for i, m := range f.Metrics.Fields {
		field, err := counters.NewField(m.Name, m.PrometheusType, m.Help)
		switch {
		case err != nil:
			problem(fmt.Sprintf("metrics.fields[%d]", i), "%w", err)
		case slices.ContainsFunc(c.fields, func(o counters.Field) bool { return o.Name == field.Name }):
			problem(fmt.Sprintf("metrics.fields[%d]", i), "%s is there already", field.Name)
		default:
			c.fields = append(c.fields, field)
		}
	}
	return problems
}

// takeIntervals takes the base interval and the groups of either version.
func (c *config) takeIntervals(f *configFile, given func(flag string) bool, problem func(at, format string, args ...any)) {
	type group struct {
		at, name, every string
		patterns        []string
	}
	var groups []group
	base := group{} // of all fields
	everyAt, patternsAt := ".interval", ".fields"
	if f.Version == 2 {
		everyAt, patternsAt = ".every", ".metrics.include"
	}
	switch {
	case f.Version != 1 && f.Version != 2:
		problem("version", "%d, want 1 or 2", f.Version)
	case f.Version == 1 && f.Collections != nil:
		problem("collections", "are of version 2; version 1 has a collection")
	case f.Version == 2 && f.Collection != nil:
		problem("collection", "is of version 1; version 2 has collections")
	}
	ignored := f.Sources != nil
	if f.Collection != nil {
		base.at, base.every = "collection", f.Collection.Interval
		ignored = ignored || f.Collection.Retention != nil
		for i, g := range f.Collection.WatchGroups {
			groups = append(groups, group{fmt.Sprintf("collection.watchGroups[%d]", i), g.Name, g.Interval, g.Fields})
			ignored = ignored || g.Retention != nil
		}
	}
	for i, g := range f.Collections {
		one := group{fmt.Sprintf("collections[%d]", i), g.Name, g.Every, g.Metrics.Include}
		ignored = ignored || g.Sources != nil
		if !slices.Equal(one.patterns, []string{"*"}) {
			groups = append(groups, one)
			continue
		}
		if base.every != "" {
			problem(one.at+patternsAt, "another collection has all metrics already")
		}
		base = one
	}
	if ignored {
		c.warnings = append(c.warnings, "--config-file: sources and retention have no effect: DCGM keeps few samples, and GPUs that come and go are always seen")
	}
	interval := func(at, text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil || d < node.MinInterval {
			problem(at, "%q, want a duration of at least %s, as 30s", text, node.MinInterval)
		}
		return d
	}
	if base.every != "" || base.name != "" {
		if every := interval(base.at+everyAt, base.every); every >= node.MinInterval && !given("collect-interval") {
			c.intervalMS = int(every.Milliseconds())
		}
	}
	names := map[string]bool{base.name: true} // and none
	for _, g := range groups {
		if names[g.name] || g.name == "" {
			problem(g.at+".name", "%q, want a name of its own", g.name)
		}
		names[g.name] = true
		for _, p := range g.patterns {
			if _, err := path.Match(p, ""); err != nil {
				problem(g.at+patternsAt, "%q: %w", p, err)
			}
		}
		c.groups = append(c.groups, watchGroup{g.name, interval(g.at+everyAt, g.every), g.patterns})
	}
}

// interval is the shortest: readings are taken that often.
func (c *config) interval() time.Duration {
	shortest := c.base()
	for _, g := range c.groups {
		shortest = min(shortest, g.every)
	}
	return shortest
}

// base is the interval of fields in no group.
func (c *config) base() time.Duration { return time.Duration(c.intervalMS) * time.Millisecond }

// pace gives each field the interval of its group, and what is computed of a field that of the
// field's. A field in two groups and a group without a field are mistakes.
func (c *config) pace(fields []counters.Field) error {
	if len(c.groups) == 0 {
		return nil
	}
	used := make([]bool, len(c.groups))
	var problems []error
	for i := range fields {
		f, in := &fields[i], []string(nil)
		f.Every = c.base()
		names := []string{f.Name}
		if f.Computed() {
			of := collect.CompatOptions{Mode: collect.CompatExact, Counters: fields[i : i+1]}
			names = append(names, counters.FieldName(of.Fields()[0]))
		}
		for k, g := range c.groups {
			if slices.ContainsFunc(g.patterns, func(p string) bool {
				return slices.ContainsFunc(names, func(name string) bool { ok, _ := path.Match(p, name); return ok })
			}) {
				f.Every, used[k], in = g.every, true, append(in, g.name)
			}
		}
		if len(in) > 1 {
			problems = append(problems, fmt.Errorf("--config-file: %s: %s is in the watch groups %s, want one", c.configFile, f.Name, strings.Join(in, " and ")))
		}
	}
	for k, g := range c.groups {
		if !used[k] {
			problems = append(problems, fmt.Errorf("--config-file: %s: the watch group %s has none of the counters", c.configFile, g.name))
		}
	}
	return errors.Join(problems...)
}
