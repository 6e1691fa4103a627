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
	// operatorCountersFile is in dcgm-exporter's image too, with the same counters (up to 4.8.2), and what
	// NVIDIA's GPU Operator and many manifests name.
	operatorCountersFile = "/etc/dcgm-exporter/dcp-metrics-included.csv"
)

// countersSource reads the counters from where the command line has them: the configuration
// file, a ConfigMap or a counters file.
type countersSource struct {
	config *config
	api    *pods.API // of the ConfigMap
	found  bool      // the file was read before: when it is removed, its content stays
}

func newCounters(c *config) (*countersSource, error) {
	s := &countersSource{config: c}
	if c.fields == nil && c.configMap != "" {
		var err error
		if s.api, err = pods.Connect(); err != nil {
			return nil, fmt.Errorf("--configmap-data: %w; use -f FILE with the ConfigMap mounted", err)
		}
	}
	return s, nil
}

// loadCounters reads the counters once.
func loadCounters(ctx context.Context, c *config) (counters.File, error) {
	source, err := newCounters(c)
	if err != nil {
		return counters.File{}, err
	}
	return source.load(ctx)
}

// load reads the counters, each with the interval of its watch group.
func (s *countersSource) load(ctx context.Context) (file counters.File, err error) {
	switch {
	case s.config.fields != nil:
		file.Fields = slices.Clone(s.config.fields)
	case s.api != nil:
		file, err = readCountersMap(ctx, s.api, s.config.configMap)
	default:
		file, err = s.readFile()
	}
	if err == nil {
		err = s.config.pace(file.Fields)
	}
	return file, err
}

// readFile reads the counters file. For the files in dcgm-exporter's image there are built-in
// copies, which are used while the file is absent.
func (s *countersSource) readFile() (counters.File, error) {
	path := cmp.Or(s.config.countersFile, defaultCountersFile)
	file, err := readCountersFile(path)
	missing := errors.Is(err, fs.ErrNotExist)
	s.found = s.found || !missing
	builtIn := path == defaultCountersFile || path == operatorCountersFile
	if !missing || s.found || !builtIn {
		return file, err
	}
	file.Fields, err = counters.Default()
	if s.config.countersFile != "" { // named by the user, who may have meant another one
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

// reloader serves the counters again when they change. Invalid counters leave
// the served ones in place.
type reloader struct {
	load func(context.Context) (counters.File, error)
	node interface {
		Reload([]counters.Field)
		ReloadFailed()
	}
	log     *slog.Logger
	remote  bool   // a ConfigMap: it is never half written, and its API server may be away
	current string // what was served last, or the mistake logged since
	seen    string // what was read last
}

// inText returns the text that is compared: of the counters, or of their
// mistakes.
func inText(file counters.File, err error) string { return fmt.Sprint(file.Fields, err) }

// run reads the counters again until ctx ends: a file every two seconds, a ConfigMap every
// five minutes, a minute after one that could not be used, and both on every hangup.
func (r *reloader) run(ctx context.Context, hangup <-chan os.Signal) {
	for {
		pause, asked := lookEvery, false
		if r.remote {
			pause = configMapEvery
			if r.seen != "" && r.seen != r.current {
				pause = time.Minute
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			r.log.Info("SIGHUP: reading the counters again")
			asked = true
		case <-time.After(pause):
		}
		r.reload(ctx, asked)
	}
}

// reload reads the counters once. Changed counters are served after they have been read twice,
// since most editors write in two or three steps. A ConfigMap's counters are served at once. A hangup
// serves what is read again, or logs the mistake again.
func (r *reloader) reload(ctx context.Context, asked bool) {
	file, err := r.load(ctx)
	before := r.seen
	r.seen = inText(file, err)
	settled := (r.remote && err == nil || r.seen == before) && r.seen != r.current
	if ctx.Err() != nil || !settled && !asked {
		return
	}
	r.current = r.seen
	if err != nil {
		r.node.ReloadFailed()
		r.log.Error("new counters are invalid; the previous ones stay", "error", err)
		return
	}
	warnCounters(r.log, file)
	r.node.Reload(file.Fields)
	r.log.Info("counters read", "fields", len(file.Fields))
}

func warnCounters(log *slog.Logger, file counters.File) {
	for _, w := range file.Warnings {
		log.Warn("counters", "warning", w)
	}
}
