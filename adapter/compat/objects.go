package compat

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
)

// maxObjects bounds the objects one request may list.
const maxObjects = 5_000

var errTooManyObjects = errors.New("more than 5000 objects match; narrow the selector")

// Metadata implements Objects with the API server's metadata.
type Metadata struct{ Client metadata.Interface }

var _ Objects = Metadata{}

// Names implements Objects. The names are sorted.
func (m Metadata) Names(ctx context.Context, resource schema.GroupVersionResource, namespace string, selector k8slabels.Selector) ([]string, error) {
	list, err := m.Client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: selector.String(), Limit: maxObjects,
	})
	if err != nil {
		return nil, err
	}
	if list.Continue != "" {
		return nil, errTooManyObjects
	}
	names := make([]string, len(list.Items))
	for i, o := range list.Items {
		names[i] = o.Name
	}
	slices.Sort(names)
	return names, nil
}
