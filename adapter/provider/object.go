package provider

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
)

// Object is the object that a request names.
type Object struct {
	Resource schema.GroupVersionResource // of its scale; empty for kinds without one
	Kind     schema.GroupKind
	Ref      custom_metrics.ObjectReference
}

// namespace returns the namespace of the object's pods; for a Namespace, itself.
func (o Object) namespace() string {
	if o.Ref.Kind == "Namespace" {
		return o.Ref.Name
	}
	return o.Ref.Namespace
}

func (p *Provider) object(name types.NamespacedName, info cma.CustomMetricInfo) (Object, error) {
	// Pods and namespaces need no discovery.
	switch info.GroupResource.String() {
	case "pods":
		return Object{Ref: reference("v1", "Pod", name)}, nil
	case "namespaces":
		return Object{Ref: reference("v1", "Namespace", types.NamespacedName{Name: name.Name})}, nil
	case "services":
		return Object{Kind: serviceKind, Ref: reference("v1", "Service", name)}, nil
	}
	gvr, err := p.mapper.ResourceFor(info.GroupResource.WithVersion(""))
	if err != nil {
		return Object{}, NotFound("no resource is called %s", info.GroupResource)
	}
	gvk, err := p.mapper.KindFor(gvr)
	if err != nil {
		return Object{}, NotFound("no kind is known for %s", info.GroupResource)
	}
	if name.Namespace == "" {
		return Object{}, NotFound("%s %s is in no namespace: it has no pods", gvk.Kind, name.Name)
	}
	return Object{Resource: gvr, Kind: gvk.GroupKind(), Ref: reference(gvk.GroupVersion().String(), gvk.Kind, name)}, nil
}

func reference(apiVersion, kind string, name types.NamespacedName) custom_metrics.ObjectReference {
	return custom_metrics.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: name.Namespace, Name: name.Name}
}
