package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/signal"
)

func (p *Provider) view(ctx context.Context, rule string) (cache.View, error) {
	view, err := p.tables.View(ctx, rule)
	switch {
	case errors.Is(err, cache.ErrUnknownRule):
		return view, notFound("no signal is called %s", rule)
	case err != nil:
		return view, apierrors.NewTimeoutError(fmt.Sprintf("waiting for the first value of %s: %v", rule, err), 1)
	}
	return view, nil
}

// missing turns the want of a value into the API's error: 503 when we cannot
// ask Prometheus, 404 when it has nothing fresh.
func missing(view cache.View, namespace string, selector labels.Selector, why error) error {
	var none *signal.NoAnswer
	var said apierrors.APIStatus
	switch {
	case errors.As(why, &said):
		return why
	case !errors.As(why, &none):
		return apierrors.NewInternalError(why)
	}
	if view.Failure != nil {
		return unavailable("%v; the last query failed: %v", why, view.Failure)
	}
	if hint, err := view.Table.Rule().Hint(namespace, selector); err == nil {
		return notFound("%v; look at %s", why, hint)
	}
	return notFound("%v", why)
}

func notFound(format string, args ...any) error {
	return status(http.StatusNotFound, metav1.StatusReasonNotFound, format, args...)
}

func badRequest(format string, args ...any) error {
	return status(http.StatusBadRequest, metav1.StatusReasonBadRequest, format, args...)
}

func unavailable(format string, args ...any) error {
	return status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, format, args...)
}

func status(code int32, reason metav1.StatusReason, format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: fmt.Sprintf(format, args...),
	}}
}
