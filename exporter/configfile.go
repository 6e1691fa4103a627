package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/node"
)

// configFile is dcgm-exporter's YAML configuration, version 1: which metrics, and how often
// they are sampled.
type configFile struct {
	Version int `json:"version"`
	Metrics struct {
		File   string `json:"file"`
		Fields []struct {
			Name           string `json:"name"`
			PrometheusType string `json:"prometheusType"`
			Help           string `json:"help"`
		} `json:"fields"`
	} `json:"metrics"`
	Collection struct {
		Interval    string `json:"interval"`
		WatchGroups []struct {
			Name     string   `json:"name"`
			Interval string   `json:"interval"`
			Fields   []string `json:"fields"`
		} `json:"watchGroups"`
	} `json:"collection"`
}

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
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return []error{fmt.Errorf("--config-file: %s: %w", c.configFile, err)}
	}
	return c.take(&f, given)
}

func (c *config) take(f *configFile, given func(flag string) bool) []error {
	var problems []error
	problem := func(at, format string, args ...any) {
		problems = append(problems, fmt.Errorf("--config-file: "+c.configFile+": "+at+": "+format, args...))
	}
	interval := func(at, text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil || d < node.MinInterval {
			problem(at, "%q, want a duration of at least %s, as 30s", text, node.MinInterval)
		}
		return d
	}
	if f.Version != 1 {
		problem("version", "%d, want 1", f.Version)
	}
	if base := f.Collection.Interval; base != "" && !given("collect-interval") {
		c.intervalMS = int(interval("collection.interval", base).Milliseconds())
	}
	for i, g := range f.Collection.WatchGroups {
		at := fmt.Sprintf("collection.watchGroups[%d]", i)
		group := watchGroup{name: g.Name, every: interval(at+".interval", g.Interval), patterns: g.Fields}
		if g.Name == "" || slices.ContainsFunc(c.groups, func(o watchGroup) bool { return o.name == g.Name }) {
			problem(at+".name", "%q, want a name of its own", g.Name)
		}
		for _, p := range g.Fields {
			if _, err := path.Match(p, ""); err != nil {
				problem(at+".fields", "%q: %w", p, err)
			}
		}
		c.groups = append(c.groups, group)
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

// pace gives each field the interval of its group. A field in two groups and a group without
// a field are mistakes.
func (c *config) pace(fields []counters.Field) error {
	if len(c.groups) == 0 {
		return nil
	}
	used := make([]bool, len(c.groups))
	var problems []error
	for i := range fields {
		f, in := &fields[i], []string(nil)
		f.Every = c.base()
		for k, g := range c.groups {
			if slices.ContainsFunc(g.patterns, func(p string) bool { ok, _ := path.Match(p, f.Name); return ok }) {
				f.Every, used[k], in = g.every, true, append(in, g.name)
			}
		}
		if len(in) > 1 {
			problems = append(problems, fmt.Errorf("%s is in the watch groups %s, want one", f.Name, strings.Join(in, " and ")))
		}
	}
	for k, g := range c.groups {
		if !used[k] {
			problems = append(problems, fmt.Errorf("the watch group %s has none of the counters", g.name))
		}
	}
	return errors.Join(problems...)
}
