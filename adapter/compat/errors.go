package compat

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/adapter/provider"
)

// unknown is the error for a metric that no rule has.
func (p *Provider) unknown(metric string) error {
	if err := p.Ready(); err != nil {
		return unavailable("%s: %v", metric, err)
	}
	return provider.NotFound("no rule of %s serves %s for this kind of object", p.opts.ConfigFile, metric)
}

// refused is the error for a request that gives no query: the request's fault,
// or the rule's.
func refused(err error) error {
	if errors.Is(err, errSelector) {
		return apierrors.NewBadRequest(err.Error())
	}
	return internal("%v", err)
}

func internal(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: fmt.Sprintf(format, args...),
	}}
}

func unavailable(format string, args ...any) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf(format, args...))
}
