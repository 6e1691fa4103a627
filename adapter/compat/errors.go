package compat

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// unknown is the error for a metric that no rule has.
func (p *Provider) unknown(metric string) error {
	if err := p.Ready(); err != nil {
		return unavailable("%s: %v", metric, err)
	}
	return notFound("no rule of %s serves %s for this kind of object", p.opts.ConfigFile, metric)
}

// refused is the error for a request that cannot be made a query: the
// request's fault, or the rule's.
func refused(err error) error {
	if errors.Is(err, errSelector) {
		return status(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	return internal("%v", err)
}

func notFound(format string, args ...any) error {
	return status(http.StatusNotFound, metav1.StatusReasonNotFound, format, args...)
}

func internal(format string, args ...any) error {
	return status(http.StatusInternalServerError, metav1.StatusReasonInternalError, format, args...)
}

func unavailable(format string, args ...any) error {
	return status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, format, args...)
}

func timeout(format string, args ...any) error {
	return apierrors.NewTimeoutError(fmt.Sprintf(format, args...), 1)
}

func status(code int32, reason metav1.StatusReason, format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: fmt.Sprintf(format, args...),
	}}
}
