package provider

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Listed finds pods, and what is above them, among objects that were listed once: as the
// informers would that had seen these.
type Listed struct {
	pods  *Informers
	above *Hierarchy
}

// NewListed returns one without objects.
func NewListed() (*Listed, error) {
	pods, err := NewInformers(nil)
	if err != nil {
		return nil, err
	}
	above, err := NewHierarchy(pods, nil, nil)
	return &Listed{pods, above}, err
}

// Add adds an object's metadata. Kinds that stand between no object and its pods are
// left out.
func (l *Listed) Add(apiVersion, kind string, o metav1.ObjectMeta) error {
	of := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}, ObjectMeta: o}
	switch i := l.above.between[schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()]; {
	case i != nil:
		return i.GetIndexer().Add(of)
	case kind == "Pod":
		return l.pods.pods.GetIndexer().Add(of)
	case kind == "ReplicaSet":
		return l.pods.replicaSets.GetIndexer().Add(of)
	}
	return nil
}

// AddService adds a Service.
func (l *Listed) AddService(s *corev1.Service) error { return l.above.services.GetIndexer().Add(s) }

// Answerer answers from the objects.
func (l *Listed) Answerer(scales Scales) Answerer {
	return Answerer{Pods: listedPods{l.pods}, Above: listedAbove{l.above}, Scales: scales}
}

type listedPods struct{ *Informers }

// Ready implements Pods: there is no list to wait for.
func (listedPods) Ready() error { return nil }

type listedAbove struct{ *Hierarchy }

// Ready implements Above.
func (listedAbove) Ready() error { return nil }
