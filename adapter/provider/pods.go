package provider

import (
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// Pods knows which pods there are, from memory. Names come sorted; pods that
// have ended or are being deleted are left out, as the HPA leaves them out.
type Pods interface {
	// Ready returns why nothing can be said yet.
	Ready() error
	Has(namespace, pod string) bool
	Select(namespace string, selector labels.Selector) []string
	Owned(namespace string, owner schema.GroupKind, name string) []string
}

var (
	podsResource        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	replicaSetsResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
)

// unfinished leaves pods that have ended to the API server: metadata does not
// say a pod's phase, and an evicted pod stays for hours. Its silence would
// count as that of a server that has gone missing.
var unfinished = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", "Succeeded"),
	fields.OneTermNotEqualSelector("status.phase", "Failed"),
).String()

// byOwner is the index from a controller to what it controls.
const byOwner = "owner"

// Informers implements Pods with informers that hold metadata only.
type Informers struct {
	pods        cache.SharedIndexInformer
	replicaSets cache.SharedIndexInformer
}

var _ Pods = (*Informers)(nil)

// NewInformers prepares the informers; Start runs them.
func NewInformers(client metadata.Interface) (*Informers, error) {
	i := &Informers{
		pods:        informer(client, podsResource, unfinished),
		replicaSets: informer(client, replicaSetsResource, ""),
	}
	return i, errors.Join(i.pods.SetTransform(strip), i.replicaSets.SetTransform(strip))
}

func informer(client metadata.Interface, resource schema.GroupVersionResource, fieldSelector string) cache.SharedIndexInformer {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, byOwner: ownerKeys}
	narrow := func(o *metav1.ListOptions) { o.FieldSelector = fieldSelector }
	return metadatainformer.NewFilteredMetadataInformer(client, resource, metav1.NamespaceAll, 0, indexers, narrow).Informer()
}

// Start begins to list and watch, and returns at once.
func (i *Informers) Start(stop <-chan struct{}) {
	go i.pods.Run(stop)
	go i.replicaSets.Run(stop)
}

// Ready implements Pods.
func (i *Informers) Ready() error {
	if !i.pods.HasSynced() || !i.replicaSets.HasSynced() {
		return errors.New("the list of pods is not complete yet")
	}
	return nil
}

// Has implements Pods.
func (i *Informers) Has(namespace, pod string) bool {
	o, there, err := i.pods.GetIndexer().GetByKey(namespace + "/" + pod)
	return err == nil && there && alive(o)
}

// Select implements Pods.
func (i *Informers) Select(namespace string, selector labels.Selector) []string {
	var names []string
	// Fails only for an index that is not there.
	_ = cache.ListAllByNamespace(i.pods.GetIndexer(), namespace, selector, func(o any) {
		if alive(o) {
			names = append(names, o.(*metav1.PartialObjectMetadata).Name)
		}
	})
	slices.Sort(names)
	return names
}

// Owned implements Pods.
func (i *Informers) Owned(namespace string, owner schema.GroupKind, name string) []string {
	names := i.controlled(namespace, owner, name)
	for _, rs := range i.byOwner(i.replicaSets, ownerKey(namespace, owner, name)) {
		names = append(names, i.controlled(namespace, schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, rs.Name)...)
	}
	slices.Sort(names)
	return names
}

func (i *Informers) controlled(namespace string, owner schema.GroupKind, name string) []string {
	var names []string
	for _, pod := range i.byOwner(i.pods, ownerKey(namespace, owner, name)) {
		if alive(pod) {
			names = append(names, pod.Name)
		}
	}
	return names
}

func (i *Informers) byOwner(informer cache.SharedIndexInformer, key string) []*metav1.PartialObjectMetadata {
	found, _ := informer.GetIndexer().ByIndex(byOwner, key) // fails only for an index that is not there
	objects := make([]*metav1.PartialObjectMetadata, len(found))
	for n, o := range found {
		objects[n] = o.(*metav1.PartialObjectMetadata)
	}
	return objects
}

func alive(o any) bool {
	return o.(*metav1.PartialObjectMetadata).DeletionTimestamp == nil
}

func ownerKeys(o any) ([]string, error) {
	m, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, nil
	}
	ref := metav1.GetControllerOf(m)
	if ref == nil {
		return nil, nil
	}
	group := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group
	return []string{ownerKey(m.Namespace, schema.GroupKind{Group: group, Kind: ref.Kind}, ref.Name)}, nil
}

func ownerKey(namespace string, kind schema.GroupKind, name string) string {
	return namespace + "/" + kind.String() + "/" + name
}

// strip drops what is never read before it is stored.
func strip(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields, m.Annotations, m.Finalizers = nil, nil, nil
	}
	return o, nil
}
