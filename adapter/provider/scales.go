package provider

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// Scales knows the selector of workloads whose pods do not point back at them.
type Scales interface {
	Selector(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (labels.Selector, error)
}

// scaleMemory is how long a selector, or its absence, is remembered.
const scaleMemory = 30 * time.Second

// NewScales reads selectors from scale subresources, at most once per object
// and half minute.
func NewScales(client dynamic.Interface) Scales {
	return &scales{client: client, known: map[scaleKey]scaleEntry{}}
}

type scaleKey struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

type scaleEntry struct {
	selector labels.Selector
	err      error
	until    time.Time
}

type scales struct {
	client dynamic.Interface
	mu     sync.Mutex
	known  map[scaleKey]scaleEntry
}

func (s *scales) Selector(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (labels.Selector, error) {
	k := scaleKey{resource, namespace, name}
	now := time.Now()
	s.mu.Lock()
	e, ok := s.known[k]
	s.mu.Unlock()
	if ok && now.Before(e.until) {
		return e.selector, e.err
	}
	e = scaleEntry{until: now.Add(scaleMemory)}
	e.selector, e.err = s.read(ctx, k)
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.known {
		if now.After(e.until) {
			delete(s.known, k)
		}
	}
	s.known[k] = e
	return e.selector, e.err
}

func (s *scales) read(ctx context.Context, k scaleKey) (labels.Selector, error) {
	o, err := s.client.Resource(k.resource).Namespace(k.namespace).Get(ctx, k.name, metav1.GetOptions{}, "scale")
	if err != nil {
		return nil, fmt.Errorf("reading its scale: %w", err)
	}
	text, _, err := unstructured.NestedString(o.Object, "status", "selector")
	if err != nil || text == "" { // an empty selector would select the whole namespace
		return nil, fmt.Errorf("its scale names no selector")
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("its scale's selector: %w", err)
	}
	return selector, nil
}
