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

func (p *Provider) view(ctx context.Context, rule, namespace string) (cache.View, error) {
	view, err := p.tables.View(ctx, rule, namespace)
	switch {
	case errors.Is(err, cache.ErrUnknownRule):
		return view, unknown(rule)
	case err != nil:
		return view, apierrors.NewTimeoutError(fmt.Sprintf("waiting for the first value of %s: %v", rule, err), 1)
	}
	return view, nil
}

func unknown(rule string) error { return NotFound("no signal is called %s", rule) }

// missing returns the API's error for a missing value: 503 when the last query
// failed, 404 when Prometheus has no fresh sample.
func missing(view cache.View, namespace string, selector labels.Selector, why error) error {
	var none *signal.NoAnswer
	var status apierrors.APIStatus
	switch {
	case errors.As(why, &status):
		return why
	case !errors.As(why, &none):
		return apierrors.NewInternalError(why)
	}
	if view.Failure != nil {
		return unavailable("%v; the last query failed: %v", why, view.Failure)
	}
	if hint, err := view.Table.Rule().Hint(namespace, selector); err == nil {
		return NotFound("%v; look at %s", why, hint)
	}
	return NotFound("%v", why)
}

// NotFound is the API's error 404 with the given message.
func NotFound(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: fmt.Sprintf(format, args...),
	}}
}

func badRequest(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}

func unavailable(format string, args ...any) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf(format, args...))
}
