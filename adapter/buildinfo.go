package main

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
)

// registerBuildInfo registers a series with the version as label.
func registerBuildInfo(reg prometheus.Registerer) error {
	d := metric.AdapterBuildInfo
	return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: d.Name, Help: d.Help,
		ConstLabels: prometheus.Labels{metric.LabelVersion: buildinfo.Version(), metric.LabelGoVersion: runtime.Version()},
	}, func() float64 { return 1 }))
}
