package main

import (
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscale/gpuscale/autoscaler/events"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// newRecorder returns the recorder of Events, which are counted by result.
func newRecorder(client kubernetes.Interface, scheme *runtime.Scheme, registry prometheus.Registerer, log *slog.Logger) *events.Recorder {
	d := metric.AutoscalerEvents
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
	registry.MustRegister(counts)
	instance, err := os.Hostname()
	if err != nil || instance == "" {
		instance = component
	}
	return events.New(events.Options{
		Client: client.EventsV1(), Scheme: scheme, Controller: component, Instance: instance,
		Count: func(result string, n int) { counts.WithLabelValues(result).Add(float64(n)) }, Log: log,
	})
}
