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

const sourceNVML = "NVML"

// openSource opens the source named on the command line, and says what it is. An absent host
// engine is no error: it is connected to when it appears. A missing library or an
// invalid recording is one, since no retry helps.
func openSource(c *config, log *slog.Logger) (source collect.Source, what string, err error) {
	if c.replay != "" {
		source, err = openReplay(c.replay)
		return source, "recording", err
	}
	if c.source == "nvml" {
		source, err = nvml.New(nvml.Options{EventWindow: c.eventWindow(), Log: log})
		return source, sourceNVML, explained(err)
	}
	if c.dcgmLog {
		// The library reads its environment when it is loaded; "-" is standard output.
		for name, value := range map[string]string{"__DCGM_DBG_FILE": "-", "__DCGM_DBG_LVL": c.dcgmLogLevel} {
			if err := os.Setenv(name, value); err != nil {
				return nil, "", fmt.Errorf("--enable-dcgm-log: %w", err)
			}
		}
	}
	if what = "DCGM, embedded"; c.remote != "" {
		what = "DCGM at " + c.remote
	}
	source, err = dcgm.New(dcgm.Options{Address: c.remote, Log: log, EventWindow: c.eventWindow()})
	if errors.Is(err, dcgm.ErrNoLibrary) {
		source, err = withoutDCGM(c, err, log)
		what = sourceNVML
	}
	return source, what, err
}

func openReplay(path string) (collect.Source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	var source *replay.Source
	frames, err := replay.Parse(text)
	if err == nil {
		source, err = replay.NewSource(frames, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return source, nil
}

// newWatcher returns the kubelet's watcher, nil without --kubernetes. It sends a request as often as
// values are sampled, but not more than once a second and at least every ten seconds.
func newWatcher(c *config, processes *nvml.Processes, connect func() (*pods.API, error), log *slog.Logger) (*pods.Watcher, error) {
	if !c.kubernetes {
		return nil, nil
	}
	o := pods.Options{
		Socket: c.kubeletSocket, Interval: min(max(c.interval(), time.Second), 10*time.Second), Resources: c.resources, Node: c.node, Log: log,
		DRA: c.enableDRA, Annotations: c.fractionalGPUs,
	}
	if c.podLabels || c.podUID {
		o.PodText = func(p *pods.Pod) string { return podText(c, p) }
	}
	if o.PodText != nil || o.DRA || o.Annotations || processes != nil {
		api, err := connect()
		if err != nil {
			log.Warn("no API server: the series have no pod labels, pod UIDs, resource claims, fractional pods and values of shares", "error", err)
			o.PodText, o.DRA, o.Annotations, processes = nil, false, false, nil
		}
		o.API = api
	}
	if processes != nil {
		o.Processes = processes
	}
	return pods.New(o)
}

// withoutDCGM reads the driver's own library on a host where DCGM's is not. It
// does not replace a remote host engine, which needs DCGM's library.
func withoutDCGM(c *config, missing error, log *slog.Logger) (collect.Source, error) {
	if c.source == "dcgm" || c.remote != "" {
		return nil, fmt.Errorf("%w (--source nvml reads this host's driver without DCGM, --replay FILE a recording)", missing)
	}
	source, err := nvml.New(nvml.Options{EventWindow: c.eventWindow(), Log: log})
	if err != nil {
		return nil, explained(fmt.Errorf("%w; %w", missing, err))
	}
	log.Info("no libdcgm.so.4 here: reading the driver's NVML, which has no NvSwitches, CPUs and health watches, and profiling from Hopper on only", "dcgm", missing)
	return source, nil
}

// explained adds where the driver's library comes from to the error that it is missing.
func explained(err error) error {
	if !errors.Is(err, nvml.ErrNoLibrary) {
		return err
	}
	return fmt.Errorf("%w (in a pod it comes from the container toolkit: set exporter.runtimeClassName or exporter.driverLibraryDir of the chart; on a machine without GPU there is --replay FILE)", err)
}

// openProcesses opens the driver's values per process, for
// --kubernetes-virtual-gpus; nil without that flag or without a driver.
func openProcesses(c *config, log *slog.Logger) *nvml.Processes {
	if !c.kubernetes || !c.series.VirtualGPUs {
		return nil
	}
	processes, err := nvml.NewProcesses(nvml.Options{Log: log})
	if err != nil {
		log.Warn("no values for containers that share a GPU", "error", err)
		return nil
	}
	return processes
}
