package main

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Bounds of the requests for Events: how many a second, and at once.
const eventQPS, eventBurst = 20, 100

// newRecorder returns a recorder that writes Events until ctx ends. client-go merges and bounds
// them; recording never blocks.
func newRecorder(ctx context.Context, rc *rest.Config, scheme *runtime.Scheme, registry prometheus.Registerer) (record.EventRecorder, error) {
	rc = rest.CopyConfig(rc)
	rc.QPS, rc.Burst = eventQPS, eventBurst
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	d := metric.AutoscalerEvents
	sink := countingSink{&typed.EventSinkImpl{Interface: client.CoreV1().Events("")},
		prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)}
	registry.MustRegister(sink.counts)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(sink)
	return broadcaster.NewRecorder(scheme, corev1.EventSource{Component: component}), nil
}

// countingSink counts writes of Events by result.
type countingSink struct {
	record.EventSink
	counts *prometheus.CounterVec
}

// Create implements record.EventSink.
func (s countingSink) Create(e *corev1.Event) (*corev1.Event, error) {
	e, err := s.EventSink.Create(e)
	s.count("written", err)
	return e, err
}

// Patch implements record.EventSink: it counts an Event on an equal one.
func (s countingSink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	e, err := s.EventSink.Patch(e, patch)
	if !apierrors.IsNotFound(err) { // then it is created again
		s.count("merged", err)
	}
	return e, err
}

func (s countingSink) count(result string, err error) {
	if err != nil {
		result = "failed"
	}
	s.counts.WithLabelValues(result).Inc()
}
