package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// withFile parses a command line with a configuration file and reads the counters.
func withFile(t *testing.T, text string, args ...string) (*config, []string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	write(t, path, strings.ReplaceAll(text, "COUNTERS", filepath.Join(filepath.Dir(path), "counters.csv")))
	write(t, filepath.Join(filepath.Dir(path), "counters.csv"), "DCGM_FI_DEV_GPU_TEMP, gauge, t\nDCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL, counter, n\n")
	c, err := parse(t, append(args, "--config-file", path), nil)
	if err != nil {
		return c, nil, err
	}
	file, err := loadCounters(t.Context(), c)
	var out []string
	for _, f := range file.Fields {
		out = append(out, fmt.Sprintf("%s %s %s", f.Name, f.Kind, f.Every))
	}
	return c, out, err
}

func TestConfigFile(t *testing.T) {
	for name, test := range map[string]struct {
		text     string
		args     []string
		interval time.Duration
		fields   []string // nil: dcgm-exporter's default
	}{
		"nothing":  {text: "version: 1\n", interval: time.Second},
		"interval": {text: "version: 1\ncollection: {interval: 30s}\n", interval: 30 * time.Second},
		"a flag":   {text: "version: 1\ncollection: {interval: 30s}\n", args: []string{"-c", "5000"}, interval: 5 * time.Second},
		"file":     {text: "version: 1\nmetrics: {file: COUNTERS}\n", interval: time.Second, fields: []string{"DCGM_FI_DEV_GPU_TEMP gauge 0s", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL counter 0s"}},
		"fields": {text: "version: 1\nmetrics: {fields: [{name: DCGM_FI_DEV_GPU_TEMP, prometheusType: gauge, help: t}]}\n", interval: time.Second,
			fields: []string{"DCGM_FI_DEV_GPU_TEMP gauge 0s"}},
		"groups": {text: "version: 1\nmetrics: {file: COUNTERS}\ncollection: {interval: 30s, watchGroups: [{name: a, interval: 5s, fields: [DCGM_FI_DEV_GPU_*]}]}\n", interval: 5 * time.Second,
			fields: []string{"DCGM_FI_DEV_GPU_TEMP gauge 5s", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL counter 30s"}},
		"slow group": {text: "version: 1\nmetrics: {file: COUNTERS}\ncollection: {watchGroups: [{name: a, interval: 5m, fields: [DCGM_FI_DEV_NVLINK_*]}]}\n", interval: time.Second,
			fields: []string{"DCGM_FI_DEV_GPU_TEMP gauge 1s", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL counter 5m0s"}},
		"group of a computed counter's field": {text: "version: 1\nmetrics: {fields: [{name: DCGM_EXP_XID_ERRORS_TOTAL, prometheusType: counter, help: x}]}\ncollection: {watchGroups: [{name: a, interval: 5s, fields: [DCGM_FI_DEV_XID_ERRORS]}]}\n", interval: time.Second,
			fields: []string{"DCGM_EXP_XID_ERRORS_TOTAL counter 5s"}},
		"version 2": {text: "version: 2\nmetrics: {file: COUNTERS}\ncollections:\n- {name: a, every: 5s, metrics: {include: [DCGM_FI_DEV_GPU_*]}}\n- {name: scrape, every: 30s, metrics: {include: ['*']}}\n", interval: 5 * time.Second,
			fields: []string{"DCGM_FI_DEV_GPU_TEMP gauge 5s", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL counter 30s"}},
		"version 2 and a flag": {text: "version: 2\ncollections: [{name: scrape, every: 30s, metrics: {include: ['*']}}]\n", args: []string{"-c", "5000"}, interval: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c, fields, err := withFile(t, test.text, test.args...)
			if err != nil || c.interval() != test.interval || test.fields != nil && !slices.Equal(fields, test.fields) || test.fields == nil && len(fields) != 26 {
				t.Errorf("%v: every %s, %q", err, c.interval(), fields)
			}
		})
	}
}

// A flag overrides the same setting of the file. How long DCGM keeps samples has no effect.
func TestConfigFileBesideFlags(t *testing.T) {
	for _, text := range []string{
		"version: 1\ncollection: {retention: {maxAge: 10m, maxSamples: 0}, watchGroups: [{name: a, interval: 5s, fields: [DCGM_*], retention: {maxAge: 0s}}]}\n",
		"version: 2\nsources: {dcgm: {watch: {maxKeepAge: 10m, maxKeepSamples: 0}, detectBindUnbind: {enabled: true, pollInterval: 1s}}}\n",
		"version: 2\ncollections: [{name: a, every: 5s, sources: {dcgm: {watch: {maxKeepSamples: 2}}}, metrics: {include: [DCGM_*]}}]\n",
	} {
		text += "metrics: {enableExporterMetrics: true}\nserver: {maxConcurrentScrapes: 8}\n"
		c, _, err := withFile(t, text)
		if err != nil || !c.exporterMetrics || c.maxScrapes != 8 || len(c.warnings) != 1 || !strings.Contains(c.warnings[0], "no effect") {
			t.Errorf("%s: %v, %v, %d, %q", text, err, c.exporterMetrics, c.maxScrapes, c.warnings)
		}
		c, _, err = withFile(t, text, "--enable-exporter-metrics=false", "--max-concurrent-scrapes", "0")
		if err != nil || c.exporterMetrics || c.maxScrapes != 0 {
			t.Errorf("%s and flags: %v, %v, %d", text, err, c.exporterMetrics, c.maxScrapes)
		}
	}
}

func TestConfigFileMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"": "version: 0, want 1 or 2", "version: 3": "version: 3, want 1 or 2", "version: 1\nmetric: {}": `config.yaml:2: metric: unknown field "metric"`, "version: [": "did not find expected",
		"version: 1\nversion: 1": "config.yaml:2: version: is already set above", "version: 1\n---\nversion: 1": "config.yaml:2: parsing configuration: more than one document",
		"version: 1\ncollections: [{name: a, every: 1s, metrics: {include: ['*']}}]": "collections: belong to version 2", "version: 2\ncollection: {interval: 1s}": "collection: belongs to version 1",
		"version: 2\nserver: {maxConcurrentScrapes: 0}":                                                                                                "server.maxConcurrentScrapes: 0, want more than 0",
		"version: 2\ncollections: [{name: a, every: 1ms, metrics: {include: ['*']}}]":                                                                  `collections[0].every: "1ms", want a duration`,
		"version: 2\ncollections: [{every: 1s, metrics: {include: [DCGM_*]}}]":                                                                         `collections[0].name: "", want a unique name`,
		"version: 2\ncollections: [{name: a, every: 1s, metrics: {include: ['[']}}]":                                                                   "collections[0].metrics.include: \"[\": syntax error in pattern",
		"version: 2\ncollections: [{name: a, every: 1s, metrics: {include: ['*']}}, {name: b, every: 2s, metrics: {include: ['*']}}]":                  "collections[1].metrics.include: another collection has all metrics",
		"version: 2\ncollections: [{name: a, every: 1s, metrics: {include: ['*']}}, {name: a, every: 2s, metrics: {include: ['*TEMP']}}]":              `collections[1].name: "a", want a unique name`,
		"version: 1\nmetrics: {file: a, fields: [{name: DCGM_FI_DEV_GPU_TEMP, prometheusType: gauge}]}":                                                "metrics: file and fields exclude each other",
		"version: 1\nmetrics: {fields: [{name: DCGM_FI_DEV_GPU_TEMPP, prometheusType: gauge}]}":                                                        "config.yaml:2: metrics.fields[0].name: no DCGM field is called",
		"version: 1\nmetrics: {fields: [{name: DCGM_FI_DEV_GPU_TEMP, prometheusType: gage}]}":                                                          `metrics.fields[0].prometheusType: "gage" is not a type`,
		"version: 1\ncollection: {interval: 30}":                                                                                                       `config.yaml:2: collection.interval: is a number, not text or a duration`,
		"version: 1\ncollection: {watchGroups: [{interval: 1s}]}":                                                                                      `collection.watchGroups[0].name: "", want a unique name`,
		"version: 1\ncollection: {watchGroups: [{name: a, interval: 1ms}]}":                                                                            `collection.watchGroups[0].interval: "1ms", want a duration`,
		"version: 1\ncollection: {watchGroups: [{name: a, interval: 1s, fields: ['[']}]}":                                                              "collection.watchGroups[0].fields: \"[\": syntax error in pattern",
		"version: 1\ncollection: {watchGroups: [{name: a, interval: 1s, fields: [NOTHING_*]}]}":                                                        "config.yaml: the watch group a has none of the counters",
		"version: 1\ncollection: {watchGroups: [{name: a, interval: 1s, fields: [DCGM_FI_DEV_GPU_TEMP]}, {name: b, interval: 2s, fields: ['*TEMP']}]}": "DCGM_FI_DEV_GPU_TEMP is in the watch groups a and b, want one",
	} {
		if _, _, err := withFile(t, text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "--collect-interval") {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

func FuzzConfigFile(f *testing.F) {
	f.Add("version: 1\nmetrics: {file: a}\ncollection: {interval: 30s, watchGroups: [{name: a, interval: 5s, fields: ['DCGM_*']}]}\n")
	f.Add("version: 2\nsources: {dcgm: {watch: {maxKeepAge: 1m}}}\ncollections: [{name: a, every: 5s, metrics: {include: ['*']}}]\n")
	f.Add("version: 1\nmetrics: {fields: [{name: DCGM_FI_DEV_GPU_TEMP, prometheusType: gauge, help: t}]}\n")
	path := filepath.Join(f.TempDir(), "config.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := config{configFile: path, intervalMS: 1000}
		if err := c.readConfigFile(func(string) bool { return false }); err == nil && (c.interval() <= 0 || c.fields != nil && c.countersFile != "") {
			t.Errorf("accepted as %+v", c)
		}
	})
}
