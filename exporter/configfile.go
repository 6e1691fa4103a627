package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/internal/strict"
)

// configFile is dcgm-exporter's YAML configuration: which metrics, and how often they are
// sampled. Version 1 has one collection with watch groups. Version 2 has collections; the
// one with all metrics is the base.
type configFile struct {
	Version int `json:"version"`
	Metrics struct {
		File   string `json:"file"`
		Fields []struct {
			Name           string `json:"name"`
			PrometheusType string `json:"prometheusType"`
			Help           string `json:"help"`
		} `json:"fields"`
		EnableExporterMetrics *bool `json:"enableExporterMetrics"`
	} `json:"metrics"`
	Server struct {
		MaxConcurrentScrapes *int `json:"maxConcurrentScrapes"`
	} `json:"server"`
	Sources    any `json:"sources"` // without effect
	Collection *struct {
		Interval    string `json:"interval"`
		Retention   any    `json:"retention"` // without effect
		WatchGroups []struct {
			Name      string   `json:"name"`
			Interval  string   `json:"interval"`
			Fields    []string `json:"fields"`
			Retention any      `json:"retention"` // without effect
		} `json:"watchGroups"`
	} `json:"collection"`
	Collections []struct {
		Name    string `json:"name"`
		Every   string `json:"every"`
		Metrics struct {
			Include []string `json:"include"`
		} `json:"metrics"`
		Sources any `json:"sources"` // without effect
	} `json:"collections"`
}

// watchGroup is a group of fields, by patterns of their names, with an interval of
// its own.
type watchGroup struct {
	name     string
	every    time.Duration
	patterns []string
}

// readConfigFile takes from the file what no flag and no variable sets.
func (c *config) readConfigFile(given func(flag string) bool) error {
	text, err := os.ReadFile(c.configFile)
	if err != nil {
		return fmt.Errorf("--config-file: %w", err)
	}
	var f configFile
	return strict.Read(c.configFile, text, &f, func() error { return errors.Join(c.take(&f, given)...) })
}

func (c *config) take(f *configFile, given func(flag string) bool) (found problems) {
	switch {
	case f.Version != 1 && f.Version != 2:
		found.add("version", "%d, want 1 or 2", f.Version)
	case f.Version == 1 && f.Collections != nil:
		found.add("collections", "belong to version 2; version 1 has a collection")
	case f.Version == 2 && f.Collection != nil:
		found.add("collection", "belongs to version 1; version 2 has collections")
	}
	c.takeIntervals(f, given, &found)
	if on := f.Metrics.EnableExporterMetrics; on != nil && !given("enable-exporter-metrics") {
		c.exporterMetrics = *on
	}
	if n := f.Server.MaxConcurrentScrapes; n != nil && !given("max-concurrent-scrapes") {
		if c.maxScrapes = *n; *n <= 0 {
			found.add("server.maxConcurrentScrapes", "%d, want more than 0", *n)
		}
	}
	if f.Metrics.File != "" && len(f.Metrics.Fields) > 0 {
		found.add("metrics", "file and fields exclude each other; remove one of them")
	}
	if given("collectors") || given("configmap-data") {
		return found
	}
	c.countersFile = f.Metrics.File
	for i, m := range f.Metrics.Fields {
		at := fmt.Sprintf("metrics.fields[%d]", i)
		field, err := counters.NewField(m.Name, m.PrometheusType, m.Help)
		switch {
		case err != nil:
			found.add(at, "%w", err)
		case slices.ContainsFunc(c.fields, func(o counters.Field) bool { return o.Name == field.Name }):
			found.add(at, "%s is used already", field.Name)
		default:
			c.fields = append(c.fields, field)
		}
	}
	return found
}

// takeIntervals takes the base interval and the groups of either version.
func (c *config) takeIntervals(f *configFile, given func(flag string) bool, found *problems) {
	interval := func(at, text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil || d < node.MinInterval {
			found.add(at, "%q, want a duration of at least %s, as 30s", text, node.MinInterval)
		}
		return max(d, node.MinInterval)
	}
	base := func(at, every string) {
		if d := interval(at, every); !given("collect-interval") {
			c.intervalMS = int(d.Milliseconds())
		}
	}
	names := map[string]bool{"": true}
	group := func(at, name string, every time.Duration, patternsAt string, patterns []string) {
		if names[name] {
			found.add(at+".name", "%q, want a unique name", name)
		}
		names[name] = true
		for _, p := range patterns {
			if _, err := path.Match(p, ""); err != nil {
				found.add(at+patternsAt, "%q: %w", p, err)
			}
		}
		c.groups = append(c.groups, watchGroup{name, every, patterns})
	}
	ignored := f.Sources != nil
	if v1 := f.Collection; v1 != nil {
		if v1.Interval != "" {
			base("collection.interval", v1.Interval)
		}
		ignored = ignored || v1.Retention != nil
		for i, g := range v1.WatchGroups {
			at := fmt.Sprintf("collection.watchGroups[%d]", i)
			group(at, g.Name, interval(at+".interval", g.Interval), ".fields", g.Fields)
			ignored = ignored || g.Retention != nil
		}
	}
	all := false
	for i, g := range f.Collections {
		at := fmt.Sprintf("collections[%d]", i)
		ignored = ignored || g.Sources != nil
		if !slices.Equal(g.Metrics.Include, []string{"*"}) {
			group(at, g.Name, interval(at+".every", g.Every), ".metrics.include", g.Metrics.Include)
			continue
		}
		if all {
			found.add(at+".metrics.include", "another collection has all metrics already")
		}
		base(at+".every", g.Every)
		all, names[g.Name] = true, true
	}
	if ignored {
		c.warnings = append(c.warnings, "--config-file: sources and retention have no effect: DCGM keeps few samples, and GPUs that come and go are always seen")
	}
}

// interval is the shortest of all intervals: readings are taken that often.
func (c *config) interval() time.Duration {
	shortest := c.base()
	for _, g := range c.groups {
		shortest = min(shortest, g.every)
	}
	return shortest
}

// base is the interval of fields in no group.
func (c *config) base() time.Duration { return time.Duration(c.intervalMS) * time.Millisecond }

// pace gives each field the interval of its group. A computed series also gets that of the
// field it is computed from. It is a mistake if a field is in two groups, or a group has no
// field.
func (c *config) pace(fields []counters.Field) error {
	if len(c.groups) == 0 {
		return nil
	}
	used := make([]bool, len(c.groups))
	var found problems
	for i := range fields {
		f := &fields[i]
		f.Every = c.base()
		var in []string
		for k, g := range c.groups {
			if g.has(f.Name) || f.Computed() && g.has(counters.FieldName(collect.MadeOf(f))) {
				f.Every, used[k], in = g.every, true, append(in, g.name)
			}
		}
		if len(in) > 1 {
			found.add(c.configFile, "%s is in the watch groups %s, want one", f.Name, strings.Join(in, " and "))
		}
	}
	for k, g := range c.groups {
		if !used[k] {
			found.add(c.configFile, "the watch group %s has none of the counters", g.name)
		}
	}
	return errors.Join(found...)
}

// has reports whether a field is in the group.
func (g *watchGroup) has(field string) bool {
	return slices.ContainsFunc(g.patterns, func(p string) bool { ok, _ := path.Match(p, field); return ok })
}
