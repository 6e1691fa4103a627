package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/dcgm"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/exporter/replay"
)

// loadCounters reads the counters file, or takes the built-in ones where none
// was named and none stands at dcgm-exporter's place.
func loadCounters(path string) ([]counters.Field, error) {
	named := path != ""
	if !named {
		path = defaultCountersFile
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return counters.Default()
	}
	if err != nil {
		return nil, fmt.Errorf("counters file: %w", err)
	}
	defer file.Close()
	fields, err := counters.Parse(path, file)
	if err != nil {
		return nil, fmt.Errorf("counters file:\n%w", err)
	}
	return fields, nil
}

// openSource opens what the command line names. A host engine that is not there
// yet is no error, it is connected to when it comes; a host without DCGM's
// library or a recording with a mistake is one, since no retry can mend it.
func openSource(c *config, log *slog.Logger) (collect.Source, error) {
	if c.replay != "" {
		return openReplay(c.replay)
	}
	options := dcgm.Options{Mode: dcgm.Embedded, Log: log}
	if c.remote != "" {
		options.Mode, options.Address = dcgm.Remote, c.remote
	}
	source, err := dcgm.New(options)
	if errors.Is(err, dcgm.ErrNoLibrary) {
		return nil, fmt.Errorf("%w (on a machine without GPU there is --replay FILE)", err)
	}
	return source, err
}

func openReplay(path string) (collect.Source, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	defer file.Close()
	recording, err := replay.Parse(path, file)
	if err != nil {
		return nil, err
	}
	return replay.NewSource(recording, replay.Options{}), nil
}

// newWatcher returns the kubelet's watcher, nil without --kubernetes. It asks
// every second where sampling is that fast, else every five or ten.
func newWatcher(c *config, log *slog.Logger) (*pods.Watcher, error) {
	if !c.kubernetes {
		return nil, nil
	}
	interval := time.Second
	switch {
	case c.interval() > 10*time.Second:
		interval = 10 * time.Second
	case c.interval() > time.Second:
		interval = 5 * time.Second
	}
	return pods.New(pods.Options{Socket: c.kubeletSocket, Interval: interval, Resources: c.resources, Log: log})
}
