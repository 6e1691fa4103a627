package main

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
)

// registerBuildInfo makes the version a series.
func registerBuildInfo(reg prometheus.Registerer) error {
	d := metric.AdapterBuildInfo
	return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: d.Name, Help: d.Help,
		ConstLabels: prometheus.Labels{metric.LabelVersion: buildinfo.Version(), metric.LabelGoVersion: runtime.Version()},
	}, func() float64 { return 1 }))
}
