package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/pods"
)

const (
	// lookEvery is how often files are read again: the kubelet replaces a mounted ConfigMap's
	// within a minute or two.
	lookEvery = 2 * time.Second
	// configMapEvery is how often a ConfigMap is read again: 5,000 nodes make
	// 17 small requests a second.
	configMapEvery = 5 * time.Minute
	// configMapKey is where dcgm-exporter looks.
	configMapKey = "metrics"
)

// loadCounters reads the counters once.
func loadCounters(ctx context.Context, c *config) ([]counters.Field, error) {
	load, err := countersLoader(c)
	if err != nil {
		return nil, err
	}
	file, err := load(ctx)
	return file.Fields, err
}

// operatorCountersFile is in dcgm-exporter's image too, and what NVIDIA's GPU
// Operator and many manifests name.
const operatorCountersFile = "/etc/dcgm-exporter/dcp-metrics-included.csv"

// countersFile is the file with the counters. Of a file in dcgm-exporter's
// image a copy is built in, which replaces an absent one.
type countersFile struct {
	path  string // "" where none was named
	found bool   // read before: when it is removed, its content stays
}

func (f *countersFile) read() (counters.File, error) {
	path := cmp.Or(f.path, defaultCountersFile)
	file, err := readCountersFile(path)
	missing := errors.Is(err, fs.ErrNotExist)
	f.found = f.found || !missing
	builtIn := map[string]func() ([]counters.Field, error){
		defaultCountersFile: counters.Default, operatorCountersFile: counters.Operator,
	}[path]
	if !missing || f.found || builtIn == nil {
		return file, err
	}
	file.Fields, err = builtIn()
	if f.path != "" { // named by the user, who may have meant another one
		file.Warnings = []*counters.Error{{File: path, Line: 1, Reason: "there is no such file; the built-in copy of dcgm-exporter's image is served"}}
	}
	return file, err
}

func readCountersFile(path string) (counters.File, error) {
	file, err := os.Open(path)
	if err != nil {
		return counters.File{}, fmt.Errorf("counters file: %w", err)
	}
	defer file.Close()
	parsed, err := counters.Parse(path, file)
	if err != nil {
		return counters.File{}, fmt.Errorf("counters file:\n%w", err)
	}
	return parsed, nil
}

// readCountersMap reads the one ConfigMap that -m names.
func readCountersMap(ctx context.Context, api *pods.API, name string) (counters.File, error) {
	namespace, object, _ := strings.Cut(name, ":")
	var of struct{ Data map[string]string }
	if err := api.Read(ctx, "/api/v1/namespaces/"+namespace+"/configmaps/"+object, nil, &of); err != nil {
		return counters.File{}, fmt.Errorf("ConfigMap %s with the counters: %w", name, err)
	}
	text, ok := of.Data[configMapKey]
	if !ok {
		return counters.File{}, fmt.Errorf("ConfigMap %s with the counters: it has no key %q", name, configMapKey)
	}
	parsed, err := counters.Parse(name+"/"+configMapKey, strings.NewReader(text))
	if err != nil {
		return counters.File{}, fmt.Errorf("ConfigMap with the counters:\n%w", err)
	}
	return parsed, nil
}

// countersLoader reads the counters from the source named on the command line.
func countersLoader(c *config) (func(context.Context) (counters.File, error), error) {
	file := &countersFile{path: c.countersFile}
	load := func(context.Context) (counters.File, error) {
		if c.fields != nil {
			return counters.File{Fields: slices.Clone(c.fields)}, nil
		}
		return file.read()
	}
	if c.fields == nil && c.configMap != "" {
		api, err := pods.Connect()
		if err != nil {
			return nil, fmt.Errorf("--configmap-data: %w; use -f FILE with the ConfigMap mounted", err)
		}
		load = func(ctx context.Context) (counters.File, error) { return readCountersMap(ctx, api, c.configMap) }
	}
	return func(ctx context.Context) (counters.File, error) {
		file, err := load(ctx)
		if err == nil {
			err = c.pace(file.Fields)
		}
		return file, err
	}, nil
}

// reloader serves the counters again when they change. Invalid counters leave
// the served ones in place.
type reloader struct {
	load func(context.Context) (counters.File, error)
	node interface {
		Reload([]counters.Field)
		ReloadFailed()
	}
	log    *slog.Logger
	served []counters.Field
	seen   string // what was read last
	failed string // the mistake last logged
}

// run reads the counters again until ctx ends: a file every two seconds, a ConfigMap every
// five minutes, and both on every hangup. A file is served when it is the same twice: most
// editors write in two or three steps.
func (r *reloader) run(ctx context.Context, c *config, hangup <-chan os.Signal) {
	every := lookEvery
	if c.configMap != "" {
		every = configMapEvery
	}
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		settled := c.configMap != ""
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			r.log.Info("hangup: reading the counters again")
			r.failed, settled = "", true // on request a mistake is logged again
		case <-look.C:
		}
		r.reload(ctx, settled)
	}
}

// reload reads once and serves what changed; what is not settled, when it is read the second time.
func (r *reloader) reload(ctx context.Context, settled bool) {
	file, err := r.load(ctx)
	before := r.seen
	r.seen = fmt.Sprint(file.Fields, err)
	switch {
	case ctx.Err() != nil:
	case !settled && r.seen != before:
	case err != nil && err.Error() == r.failed:
		// The same mistake is logged once.
	case err != nil:
		r.failed = err.Error()
		r.node.ReloadFailed()
		r.log.Error("new counters are invalid; the previous ones stay", "error", err)
	case r.failed == "" && slices.Equal(file.Fields, r.served):
		// Touched, not changed.
	default:
		r.failed, r.served = "", file.Fields
		warnCounters(r.log, file)
		r.node.Reload(file.Fields)
		r.log.Info("counters read", "fields", len(file.Fields))
	}
}

func warnCounters(log *slog.Logger, file counters.File) {
	for _, w := range file.Warnings {
		log.Warn("counters: line left out", "error", w)
	}
}
