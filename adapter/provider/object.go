package provider

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
)

// object is what a request named.
type object struct {
	resource schema.GroupVersionResource
	kind     schema.GroupKind
	ref      custom_metrics.ObjectReference
}

// namespace returns where the object's pods are; a namespace's are in itself.
func (o object) namespace() string {
	if o.ref.Kind == "Namespace" {
		return o.ref.Name
	}
	return o.ref.Namespace
}

func (p *Provider) object(name types.NamespacedName, info cma.CustomMetricInfo) (object, error) {
	// Those that are always there need no discovery.
	switch info.GroupResource.String() {
	case "pods":
		return object{ref: reference("v1", "Pod", name)}, nil
	case "namespaces":
		return object{ref: reference("v1", "Namespace", types.NamespacedName{Name: name.Name})}, nil
	case "services":
		return object{kind: serviceKind, ref: reference("v1", "Service", name)}, nil
	}
	gvr, err := p.mapper.ResourceFor(info.GroupResource.WithVersion(""))
	if err != nil {
		return object{}, notFound("no resource is called %s", info.GroupResource)
	}
	gvk, err := p.mapper.KindFor(gvr)
	if err != nil {
		return object{}, notFound("no kind is known for %s", info.GroupResource)
	}
	if name.Namespace == "" {
		return object{}, notFound("%s %s is in no namespace: it has no pods", gvk.Kind, name.Name)
	}
	return object{resource: gvr, kind: gvk.GroupKind(), ref: reference(gvk.GroupVersion().String(), gvk.Kind, name)}, nil
}

func reference(apiVersion, kind string, name types.NamespacedName) custom_metrics.ObjectReference {
	return custom_metrics.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: name.Namespace, Name: name.Name}
}

var serviceKind = schema.GroupKind{Kind: "Service"}

// podsOf returns the pods of a workload: those it owns, directly or through a
// ReplicaSet, or else through anything else it owns, or else those its scale
// subresource selects. There may be none.
func (p *Provider) podsOf(ctx context.Context, o object) ([]string, error) {
	if err := p.pods.Ready(); err != nil {
		return nil, unavailable("%v", err)
	}
	if o.kind == serviceKind {
		return p.behind(o)
	}
	pods := p.pods.Owned(o.ref.Namespace, o.kind, o.ref.Name)
	if ownsDirectly(o.kind) {
		return pods, nil
	}
	if p.extra.Above != nil {
		if err := p.extra.Above.Ready(); err != nil {
			return nil, unavailable("%v", err)
		}
		pods = p.extra.Above.Owned(o.ref.Namespace, o.kind, o.ref.Name)
	}
	if len(pods) > 0 || p.scales == nil {
		return pods, nil
	}
	scale, err := p.scales.Scale(ctx, o.resource, o.ref.Namespace, o.ref.Name)
	switch {
	case err != nil:
		return nil, notFound("%s %s/%s owns no pods and its selector is unknown: %v", o.ref.Kind, o.ref.Namespace, o.ref.Name, err)
	case scale.Selector == nil:
		return nil, nil
	}
	return p.pods.Select(o.ref.Namespace, scale.Selector), nil
}

// behind returns the pods a Service selects.
func (p *Provider) behind(o object) ([]string, error) {
	if p.extra.Above == nil {
		return nil, notFound("Services are not watched")
	}
	if err := p.extra.Above.Ready(); err != nil {
		return nil, unavailable("%v", err)
	}
	selector, there := p.extra.Above.Service(o.ref.Namespace, o.ref.Name)
	switch {
	case !there:
		return nil, notFound("there is no Service %s/%s", o.ref.Namespace, o.ref.Name)
	case selector == nil:
		return nil, notFound("Service %s/%s has no selector: it has no pods of its own", o.ref.Namespace, o.ref.Name)
	}
	return p.pods.Select(o.ref.Namespace, selector), nil
}

// meantToBeEmpty reports whether a workload without pods is scaled to zero,
// as opposed to having lost them.
func (p *Provider) meantToBeEmpty(ctx context.Context, o object) bool {
	if p.scales == nil || o.resource.Empty() {
		return false
	}
	scale, err := p.scales.Scale(ctx, o.resource, o.ref.Namespace, o.ref.Name)
	return err == nil && scale.Zero
}

// ownsDirectly names the kinds whose pods always point back at them.
func ownsDirectly(k schema.GroupKind) bool {
	switch k.String() {
	case "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch", "ReplicationController":
		return true
	}
	return false
}
