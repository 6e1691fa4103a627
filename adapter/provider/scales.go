package provider

import (
	"context"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/dynamic"
)

// Scales reads scale subresources: for workloads that are not their pods'
// controllers, and to distinguish a workload scaled to zero from one that has
// lost its pods.
type Scales interface {
	Scale(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (Scale, error)
}

// Scale is the part of a scale subresource that is read.
type Scale struct {
	// Selector of the pods; nil if the scale names none.
	Selector labels.Selector
	// Replicas and StatusReplicas are spec.replicas and status.replicas; a missing one is 0.
	Replicas, StatusReplicas int32
}

// Zero reports whether the object is scaled to zero.
func (s Scale) Zero() bool { return s.Replicas == 0 && s.StatusReplicas == 0 }

const (
	// scaleTTL is how long a selector, or its absence, is cached.
	scaleTTL = 30 * time.Second
	// briefTTL is how long a scale of zero, or a failure of the API server, is cached. A
	// workload may be scaled up and lose its pods in the meantime, so the time is short.
	briefTTL = 5 * time.Second
)

// NewScales returns a cache of scales: each object is read at most every 30 s,
// or every 5 s while it is scaled to zero or cannot be read.
func NewScales(client dynamic.Interface) Scales {
	return &scales{client: client, known: utilcache.NewExpiring()}
}

type scaleKey struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

type scaleEntry struct {
	Scale
	err error
}

type scales struct {
	client dynamic.Interface
	known  *utilcache.Expiring
}

func (s *scales) Scale(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (Scale, error) {
	k := scaleKey{resource, namespace, name}
	if known, ok := s.known.Get(k); ok {
		e := known.(scaleEntry)
		return e.Scale, e.err
	}
	var e scaleEntry
	o, err := s.client.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{}, "scale")
	switch {
	case err == nil:
		e.Scale, e.err = scaleOf(o.Object)
	case ctx.Err() != nil: // the end of this request says nothing about the object
		return Scale{}, err
	default:
		e.err = fmt.Errorf("reading its scale: %w", err)
	}
	ttl := scaleTTL
	if e.err == nil && e.Zero() || err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		ttl = briefTTL
	}
	s.known.Set(k, e, ttl)
	return e.Scale, e.err
}

func scaleOf(o map[string]any) (Scale, error) {
	var read autoscalingv1.Scale
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, &read); err != nil {
		return Scale{}, err
	}
	s := Scale{Replicas: read.Spec.Replicas, StatusReplicas: read.Status.Replicas}
	if read.Status.Selector == "" { // it would select the whole namespace
		return s, nil
	}
	var err error
	if s.Selector, err = labels.Parse(read.Status.Selector); err != nil {
		return Scale{}, fmt.Errorf("its scale's selector: %w", err)
	}
	return s, nil
}
