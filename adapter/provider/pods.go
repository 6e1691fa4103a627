package provider

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// Pods lists pods from memory. Names are sorted; pods that have ended or are
// being deleted are left out, as in the HPA controller.
type Pods interface {
	// Ready returns why the informers are not synced yet.
	Ready() error
	Has(namespace, pod string) bool
	Select(namespace string, selector labels.Selector) []string
	Owned(namespace string, owner schema.GroupKind, name string) []string
}

var (
	podsResource        = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	replicaSetsResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}
)

// unfinished excludes pods that have ended. The API server filters, since
// metadata has no phase. An evicted pod stays for hours, and would count as a
// stale server.
var unfinished = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", "Succeeded"),
	fields.OneTermNotEqualSelector("status.phase", "Failed"),
).String()

// byOwner is the index from a controller to what it controls.
const byOwner = "owner"

// Informers implements Pods. It keeps the names, labels and owners of pods, and
// the metadata of ReplicaSets.
type Informers struct {
	pods        *podStore
	list        cache.ListerWatcher
	replicaSets cache.SharedIndexInformer
}

var _ Pods = (*Informers)(nil)

// NewInformers prepares the informers; Start runs them.
func NewInformers(client metadata.Interface) (*Informers, error) {
	i := &Informers{
		pods:        newPodStore(),
		list:        podList(client),
		replicaSets: informer(client, replicaSetsResource, ""),
	}
	return i, i.replicaSets.SetTransform(strip)
}

func podList(client metadata.Interface) cache.ListerWatcher {
	pods := client.Resource(podsResource).Namespace(metav1.NamespaceAll)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = unfinished
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = unfinished
			return pods.Watch(ctx, o)
		},
	}, client)
}

func informer(client metadata.Interface, resource schema.GroupVersionResource, fieldSelector string) cache.SharedIndexInformer {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, byOwner: ownerKeys}
	narrow := func(o *metav1.ListOptions) { o.FieldSelector = fieldSelector }
	return metadatainformer.NewFilteredMetadataInformer(client, resource, metav1.NamespaceAll, 0, indexers, narrow).Informer()
}

// Start begins to list and watch, and returns at once.
func (i *Informers) Start(stop <-chan struct{}) {
	r := cache.NewReflectorWithOptions(i.list, &metav1.PartialObjectMetadata{}, i.pods, cache.ReflectorOptions{Name: "pods"})
	go r.Run(stop)
	go i.replicaSets.Run(stop)
}

// Ready implements Pods.
func (i *Informers) Ready() error {
	if !i.pods.synced() || !i.replicaSets.HasSynced() {
		return errors.New("the list of pods is not complete yet")
	}
	return nil
}

// Has implements Pods.
func (i *Informers) Has(namespace, pod string) bool { return i.pods.has(namespace, pod) }

// Select implements Pods.
func (i *Informers) Select(namespace string, selector labels.Selector) []string {
	return i.pods.matching(namespace, selector)
}

// Owned implements Pods.
func (i *Informers) Owned(namespace string, owner schema.GroupKind, name string) []string {
	names := i.pods.controlled(namespace, ownerKey(namespace, owner, name))
	for _, rs := range i.byOwner(i.replicaSets, ownerKey(namespace, owner, name)) {
		below := ownerKey(namespace, schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, rs.Name)
		names = append(names, i.pods.controlled(namespace, below)...)
	}
	slices.Sort(names)
	return names
}

func (i *Informers) byOwner(informer cache.SharedIndexInformer, key string) []*metav1.PartialObjectMetadata {
	found, _ := informer.GetIndexer().ByIndex(byOwner, key) // fails for an unknown index only
	objects := make([]*metav1.PartialObjectMetadata, len(found))
	for n, o := range found {
		objects[n] = o.(*metav1.PartialObjectMetadata)
	}
	return objects
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

// strip drops the fields that are never read, before an object is stored.
func strip(o any) (any, error) {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields, m.Annotations, m.Finalizers = nil, nil, nil
	}
	return o, nil
}
