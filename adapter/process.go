package main

import (
	"context"
	"errors"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
)

// registerBuildInfo registers a series with the version as label.
func registerBuildInfo(reg prometheus.Registerer) {
	d := metric.AdapterBuildInfo
	promauto.With(reg).NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels).WithLabelValues(buildinfo.Version(), runtime.Version()).Set(1)
}

// ignoreGoneCallers keeps errors of writing to a caller that is gone out of the log.
// The aggregator probes an API service with several requests at once and cancels all
// but the first, which gives dozens of harmless errors at each start. It must run
// before any goroutine that may report an error.
func ignoreGoneCallers() {
	for i, report := range utilruntime.ErrorHandlers {
		utilruntime.ErrorHandlers[i] = func(ctx context.Context, err error, msg string, more ...any) {
			if !gone(err) {
				report(ctx, err, msg, more...)
			}
		}
	}
}

// gone reports whether writing an answer failed because the caller is gone. HTTP/2's
// errors for that have only a text (golang.org/x/net/http2, server.go).
func gone(err error) bool {
	return err != nil && strings.Contains(err.Error(), "unable to write a") &&
		(errors.Is(err, context.Canceled) || strings.HasSuffix(err.Error(), "http2: stream closed") || strings.HasSuffix(err.Error(), "client disconnected"))
}
