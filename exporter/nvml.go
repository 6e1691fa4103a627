package main

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/nvml"
)

func openNVML(c *config, log *slog.Logger) (collect.Source, error) {
	source, err := nvml.New(nvml.Options{EventWindow: c.eventWindow(), Log: log})
	if err != nil {
		return nil, err
	}
	return source, nil
}

// withoutDCGM reads the driver's own library on a host where DCGM's is not. A
// remote host engine cannot be reached without it, and what the driver here
// says is no answer to who asked for the one there.
func withoutDCGM(c *config, missing error, log *slog.Logger) (collect.Source, error) {
	if c.source == "dcgm" || c.remote != "" {
		return nil, fmt.Errorf("%w (--source nvml reads this host's driver without DCGM, --replay FILE a recording)", missing)
	}
	source, err := openNVML(c, log)
	if err != nil {
		return nil, fmt.Errorf("%w (on a machine without GPU there is --replay FILE)", errors.Join(missing, err))
	}
	log.Info("no libdcgm.so.4 here: reading the driver's NVML, which has no NvSwitches, CPUs and health watches, and profiling from Hopper on only", "dcgm", missing)
	return source, nil
}

// openProcesses looks at what processes do, for --kubernetes-virtual-gpus; nil
// where that is not asked for or there is no driver here to ask.
func openProcesses(c *config, log *slog.Logger) *nvml.Processes {
	if !c.kubernetes || !c.virtualGPUs {
		return nil
	}
	processes, err := nvml.NewProcesses(nvml.Options{Log: log})
	if err != nil {
		log.Warn("containers that share a GPU have no values of their own", "error", err)
		return nil
	}
	return processes
}
