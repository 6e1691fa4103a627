package provider

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Registerer takes the provider's own series.
type Registerer = prometheus.Registerer

type metrics struct {
	answers *prometheus.CounterVec
	known   func(rule string) bool
}

func newMetrics(reg Registerer, known func(rule string) bool) (*metrics, error) {
	d := metric.AdapterAnswers
	m := &metrics{known: known, answers: prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)}
	return m, reg.Register(m.answers)
}

// answered counts an answer and returns its error.
func (m *metrics) answered(rule string, err error) error {
	code := http.StatusOK
	var known apierrors.APIStatus
	switch {
	case errors.As(err, &known):
		code = int(known.Status().Code)
	case err != nil:
		code = http.StatusInternalServerError
	}
	if !m.known(rule) {
		rule = "unknown" // a request must not create label values
	}
	m.answers.WithLabelValues(rule, strconv.Itoa(code)).Inc()
	return err
}
