package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/dcgm"
	"github.com/gpuscale/gpuscale/exporter/nvml"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/exporter/replay"
)

// openSource opens what the command line names. A host engine that is not there
// yet is no error, it is connected to when it comes; a host without DCGM's
// library or a recording with a mistake is one, since no retry can mend it.
func openSource(c *config, log *slog.Logger) (collect.Source, error) {
	if c.replay != "" {
		return openReplay(c.replay)
	}
	if c.source == "nvml" {
		return openNVML(c, log)
	}
	if c.dcgmLog {
		// The library reads its environment when it is loaded; "-" is standard output.
		for name, value := range map[string]string{"__DCGM_DBG_FILE": "-", "__DCGM_DBG_LVL": c.dcgmLogLevel} {
			if err := os.Setenv(name, value); err != nil {
				return nil, fmt.Errorf("--enable-dcgm-log: %w", err)
			}
		}
	}
	options := dcgm.Options{Mode: dcgm.Embedded, Log: log, EventWindow: c.eventWindow()}
	if c.remote != "" {
		options.Mode, options.Address = dcgm.Remote, c.remote
	}
	source, err := dcgm.New(options)
	if errors.Is(err, dcgm.ErrNoLibrary) {
		return withoutDCGM(c, err, log)
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
func newWatcher(c *config, processes *nvml.Processes, log *slog.Logger) (*pods.Watcher, error) {
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
	o := pods.Options{Socket: c.kubeletSocket, Interval: interval, Resources: c.resources, Node: c.node, Log: log}
	o.Labels, o.DRA, o.Annotations = c.podLabels || c.podUID, c.enableDRA, c.fractionalGPUs
	if o.Labels || o.DRA || o.Annotations || processes != nil {
		api, err := pods.InCluster()
		if err != nil {
			log.Warn("the API server cannot be asked; the series go without pod labels, pod UIDs, resource claims, fractional pods and values of shares", "error", err)
			o.Labels, o.DRA, o.Annotations, processes = false, false, false, nil
		}
		o.API = api
	}
	if processes != nil {
		o.Processes = processes
	}
	return pods.New(o)
}
