package provider

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// Pods finds pods in memory. Names are sorted; pods that have ended or are being deleted
// are left out, as in the HPA controller.
type Pods interface {
	// Ready returns why the pods are not known yet.
	Ready() error
	// Lives returns when a pod was created, and false if there is no such pod.
	Lives(namespace, pod string) (since time.Time, ok bool)
	Select(namespace string, selector labels.Selector) []string
	// Owned returns the pods that an object controls. The kinds of ownsDirectly
	// control them directly, a Deployment through a ReplicaSet. Other kinds control
	// them through any objects in between.
	Owned(namespace string, owner schema.GroupKind, name string) ([]string, error)
	// Service returns a Service's selector. Its errors are the API's.
	Service(namespace, name string) (labels.Selector, error)
}

var (
	podKind        = schema.GroupKind{Kind: "Pod"}
	replicaSetKind = schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
	serviceKind    = schema.GroupKind{Kind: "Service"}
)

// watched are pods and the kinds between them and the objects that HPAs name: a
// Deployment's ReplicaSets, a LeaderWorkerSet's StatefulSets, a JobSet's Jobs, an
// InferenceService's Deployments. A kind that controls its pods itself need not be here.
func watched() map[schema.GroupKind]schema.GroupVersionResource {
	return map[schema.GroupKind]schema.GroupVersionResource{
		podKind:                              {Version: "v1", Resource: "pods"},
		replicaSetKind:                       {Group: "apps", Version: "v1", Resource: "replicasets"},
		{Group: "apps", Kind: "Deployment"}:  {Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Kind: "StatefulSet"}: {Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "batch", Kind: "Job"}:        {Group: "batch", Version: "v1", Resource: "jobs"},
	}
}

// ownsDirectly reports whether the pods of a kind always have it, or its
// ReplicaSet, as their controller.
func ownsDirectly(k schema.GroupKind) bool {
	switch k.String() {
	case "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch", "ReplicationController":
		return true
	}
	return false
}

// unfinished excludes pods that have ended. The API server filters, since
// metadata has no phase. An evicted pod stays for hours, and would count as a
// stale server.
var unfinished = fields.AndSelectors(
	fields.OneTermNotEqualSelector("status.phase", "Succeeded"),
	fields.OneTermNotEqualSelector("status.phase", "Failed"),
).String()

// options are those of a list of a kind.
func options(kind schema.GroupKind) *metav1.ListOptions {
	if kind == podKind {
		return &metav1.ListOptions{FieldSelector: unfinished}
	}
	return &metav1.ListOptions{}
}

// byOwner is the index from a controller to what it controls.
const byOwner = "owner"

// Informers implements Pods. It keeps the metadata of the kinds of watched, and the
// selectors of Services.
type Informers struct {
	kinds    map[schema.GroupKind]cache.SharedIndexInformer
	services cache.SharedIndexInformer
	meta     metadata.Interface
	client   kubernetes.Interface
	listed   bool // by List
}

var _ Pods = (*Informers)(nil)

// NewInformers prepares the informers; Start or List fills them.
func NewInformers(meta metadata.Interface, client kubernetes.Interface) (*Informers, error) {
	i := &Informers{kinds: map[schema.GroupKind]cache.SharedIndexInformer{}, meta: meta, client: client}
	i.services = informers.NewSharedInformerFactory(client, 0).Core().V1().Services().Informer()
	errs := []error{i.services.SetTransform(selectorOnly)}
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, byOwner: ownerKeys}
	for kind, resource := range watched() {
		narrow := func(o *metav1.ListOptions) { o.FieldSelector = options(kind).FieldSelector }
		i.kinds[kind] = metadatainformer.NewFilteredMetadataInformer(meta, resource, metav1.NamespaceAll, 0, indexers, narrow).Informer()
		errs = append(errs, i.kinds[kind].SetTransform(strip))
	}
	return i, errors.Join(errs...)
}

// List reads the objects of one namespace once, in place of Start.
func (i *Informers) List(ctx context.Context, namespace string) error {
	for kind, resource := range watched() {
		list, err := i.meta.Resource(resource).Namespace(namespace).List(ctx, *options(kind))
		if err != nil {
			return fmt.Errorf("listing the %s of namespace %s: %w", resource.Resource, namespace, err)
		}
		for n := range list.Items {
			_ = i.kinds[kind].GetIndexer().Add(&list.Items[n]) // fails for an object without a name only
		}
	}
	list, err := i.client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the services of namespace %s: %w", namespace, err)
	}
	for n := range list.Items {
		_ = i.services.GetIndexer().Add(&list.Items[n])
	}
	i.listed = true
	return nil
}

// Start begins to list and watch, and returns at once.
func (i *Informers) Start(stop <-chan struct{}) {
	for _, kind := range i.kinds {
		go kind.Run(stop)
	}
	go i.services.Run(stop)
}

// Ready implements Pods. It waits for the pods only; the other lists are checked where they
// are read. prometheus-adapter's rights do not allow those lists, and its rules do not need
// them.
func (i *Informers) Ready() error { return i.synced(podKind) }

func (i *Informers) synced(kinds ...schema.GroupKind) error {
	for _, kind := range kinds {
		if informer := i.kinds[kind]; !i.listed && !informer.HasSynced() {
			return fmt.Errorf("the list of %s is not complete yet: may we list and watch them?", watched()[kind].Resource)
		}
	}
	return nil
}

// Lives implements Pods.
func (i *Informers) Lives(namespace, pod string) (since time.Time, ok bool) {
	o, there, err := i.kinds[podKind].GetIndexer().GetByKey(namespace + "/" + pod)
	if err != nil || !there {
		return time.Time{}, false
	}
	m := o.(*metav1.PartialObjectMetadata)
	return m.CreationTimestamp.Time, m.DeletionTimestamp == nil
}

// Select implements Pods.
func (i *Informers) Select(namespace string, selector labels.Selector) (names []string) {
	for m := range i.found(podKind, cache.NamespaceIndex, namespace) {
		if selector.Matches(labels.Set(m.Labels)) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// found yields the objects of a kind that an index has, and that are not being deleted.
func (i *Informers) found(kind schema.GroupKind, index, key string) iter.Seq[*metav1.PartialObjectMetadata] {
	return func(yield func(*metav1.PartialObjectMetadata) bool) {
		some, _ := i.kinds[kind].GetIndexer().ByIndex(index, key) // fails for an unknown index only
		for _, o := range some {
			if m := o.(*metav1.PartialObjectMetadata); (kind != podKind || m.DeletionTimestamp == nil) && !yield(m) {
				return
			}
		}
	}
}

// Owned implements Pods. A pod may control other objects: the leader of a
// LeaderWorkerSet's group controls its workers' StatefulSet.
func (i *Informers) Owned(namespace string, owner schema.GroupKind, name string) (names []string, err error) {
	kinds := []schema.GroupKind{podKind}
	direct := ownsDirectly(owner)
	switch {
	case !direct:
		kinds = slices.Collect(maps.Keys(i.kinds))
	case owner.Kind == "Deployment":
		kinds = append(kinds, replicaSetKind)
	}
	if err := i.synced(kinds...); err != nil {
		return nil, err
	}
	type object struct {
		kind schema.GroupKind
		name string
	}
	todo := []object{{owner, name}}
	seen := map[object]bool{todo[0]: true}
	for len(todo) > 0 {
		o := todo[0]
		todo = todo[1:]
		for _, kind := range kinds {
			for m := range i.found(kind, byOwner, ownerKey(namespace, o.kind, o.name)) {
				below := object{kind, m.Name}
				if seen[below] {
					continue
				}
				seen[below] = true
				if kind == podKind {
					names = append(names, m.Name)
				}
				if kind != podKind || !direct {
					todo = append(todo, below)
				}
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// Service implements Pods.
func (i *Informers) Service(namespace, name string) (labels.Selector, error) {
	if !i.listed && !i.services.HasSynced() {
		return nil, Unavailable("the list of services is not complete yet: may we list and watch them?")
	}
	o, there, err := i.services.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !there {
		return nil, NotFound("there is no Service %s/%s", namespace, name)
	}
	selector := o.(*corev1.Service).Spec.Selector
	if len(selector) == 0 { // it would select the whole namespace
		return nil, NotFound("Service %s/%s has no selector: it has no pods of its own", namespace, name)
	}
	return labels.SelectorFromSet(selector), nil
}

// ownerKeys indexes an object by its controller.
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

// selectorOnly drops all of a Service but its name and selector.
func selectorOnly(o any) (any, error) {
	s, ok := o.(*corev1.Service)
	if !ok {
		return o, nil
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion},
		Spec:       corev1.ServiceSpec{Selector: s.Spec.Selector},
	}, nil
}
