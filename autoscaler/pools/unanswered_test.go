package pools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// failing is a provider whose every resize returns an error.
type failing struct {
	Provider
	err error
}

func (f failing) SetSize(context.Context, *v1alpha1.GPUNodePool, int) error { return f.err }

// TestAPIServerErrorsAreNoFailures: a short outage of the API server causes no backoff of a pool.
func TestAPIServerErrorsAreNoFailures(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	scale := v1alpha1.Provider{Scale: &deploymentRef}
	asg := v1alpha1.Provider{ASG: &v1alpha1.ASGProvider{}}
	for _, test := range []struct {
		name     string
		provider v1alpha1.Provider
		err      error
		failures int
	}{
		{"500", scale, apierrors.NewInternalError(errors.New("etcd")), 0},
		{"503", scale, apierrors.NewServiceUnavailable("starting"), 0},
		{"429", scale, apierrors.NewTooManyRequests("busy", 1), 0},
		{"504", scale, apierrors.NewTimeoutError("slow", 1), 0},
		{"the connection breaks", scale, &url.Error{Op: "Post", URL: "x", Err: io.EOF}, 0},
		{"refused", scale, apierrors.NewForbidden(nodes, "n", errors.New("no quota")), 1},
		{"bad", scale, apierrors.NewBadRequest("bad"), 1},
		{"AWS does not answer", asg, &url.Error{Op: "Post", URL: "x", Err: io.EOF}, 1},
	} {
		h := NewHistory(time.Now)
		failing := failing{err: fmt.Errorf("making node n: %w", test.err)}
		p := Providers{Scale: failing, ASG: failing, History: h}
		pool := &v1alpha1.GPUNodePool{Spec: v1alpha1.GPUNodePoolSpec{Provider: test.provider}}
		pool.Name = "p"
		if err := p.SetSize(t.Context(), pool, 1); err == nil {
			t.Fatal("no error")
		}
		if got := p.Learn(pool, 0, []*corev1.Node{}).Failures; got != test.failures {
			t.Errorf("%s: %d failures, want %d", test.name, got, test.failures)
		}
	}
}
