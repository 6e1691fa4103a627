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
	// The three that are always there need no discovery.
	switch info.GroupResource.String() {
	case "pods":
		return object{ref: reference("v1", "Pod", name)}, nil
	case "namespaces":
		return object{ref: reference("v1", "Namespace", types.NamespacedName{Name: name.Name})}, nil
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

// podsOf returns the pods of a workload: those it owns, directly or through a
// ReplicaSet, or else those its scale subresource selects.
func (p *Provider) podsOf(ctx context.Context, o object) ([]string, error) {
	if err := p.pods.Ready(); err != nil {
		return nil, unavailable("%v", err)
	}
	pods := p.pods.Owned(o.ref.Namespace, o.kind, o.ref.Name)
	if len(pods) == 0 && p.scales != nil && !ownsDirectly(o.kind) {
		selector, err := p.scales.Selector(ctx, o.resource, o.ref.Namespace, o.ref.Name)
		if err != nil {
			return nil, notFound("%s %s/%s owns no pods and its selector is unknown: %v", o.ref.Kind, o.ref.Namespace, o.ref.Name, err)
		}
		pods = p.pods.Select(o.ref.Namespace, selector)
	}
	if len(pods) == 0 {
		return nil, notFound("%s %s/%s has no pods", o.ref.Kind, o.ref.Namespace, o.ref.Name)
	}
	return pods, nil
}

// ownsDirectly names the kinds whose pods always point back at them.
func ownsDirectly(k schema.GroupKind) bool {
	switch k.String() {
	case "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch", "ReplicationController":
		return true
	}
	return false
}
