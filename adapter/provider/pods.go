package provider

import (
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// Pods lists pods from memory. Names are sorted; pods that have ended or are
// being deleted are left out, as in the HPA controller.
type Pods interface {
	// Ready returns why the informers are not synced yet.
	Ready() error
	// Lives returns when a pod was created, and false if there is no such pod.
	Lives(namespace, pod string) (since time.Time, ok bool)
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

// Informers implements Pods. It keeps the metadata of pods and ReplicaSets.
type Informers struct{ pods, replicaSets cache.SharedIndexInformer }

var _ Pods = (*Informers)(nil)

// NewInformers prepares the informers; Start runs them.
func NewInformers(client metadata.Interface) (*Informers, error) {
	i := &Informers{pods: informer(client, podsResource, unfinished), replicaSets: informer(client, replicaSetsResource, "")}
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

// Lives implements Pods.
func (i *Informers) Lives(namespace, pod string) (since time.Time, ok bool) {
	o, there, err := i.pods.GetIndexer().GetByKey(namespace + "/" + pod)
	if err != nil || !there {
		return time.Time{}, false
	}
	m := o.(*metav1.PartialObjectMetadata)
	return m.CreationTimestamp.Time, m.DeletionTimestamp == nil
}

// Select implements Pods.
func (i *Informers) Select(namespace string, selector labels.Selector) []string {
	return names(found(i.pods, cache.NamespaceIndex, namespace), selector)
}

// Owned implements Pods.
func (i *Informers) Owned(namespace string, owner schema.GroupKind, name string) []string {
	pods := found(i.pods, byOwner, ownerKey(namespace, owner, name))
	for _, rs := range found(i.replicaSets, byOwner, ownerKey(namespace, owner, name)) {
		below := ownerKey(namespace, schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}, rs.Name)
		pods = append(pods, found(i.pods, byOwner, below)...)
	}
	return names(pods, labels.Everything())
}

// names returns the sorted names of the pods that a selector matches and that are
// not being deleted.
func names(pods []*metav1.PartialObjectMetadata, selector labels.Selector) (all []string) {
	for _, m := range pods {
		if m.DeletionTimestamp == nil && selector.Matches(labels.Set(m.Labels)) {
			all = append(all, m.Name)
		}
	}
	slices.Sort(all)
	return all
}

func found(informer cache.SharedIndexInformer, index, key string) []*metav1.PartialObjectMetadata {
	some, _ := informer.GetIndexer().ByIndex(index, key) // fails for an unknown index only
	objects := make([]*metav1.PartialObjectMetadata, len(some))
	for n, o := range some {
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
