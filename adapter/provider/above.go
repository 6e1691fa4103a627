package provider

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// Above finds pods through owners of owners and through Services, beyond their
// controllers and ReplicaSets.
type Above interface {
	// Ready returns why the informers are not synced yet.
	Ready() error
	// Owned returns the names of the pods an object controls, directly or
	// through other objects, sorted.
	Owned(namespace string, owner schema.GroupKind, name string) []string
	// Service returns a Service's selector, nil if it has none; false if there
	// is no such Service.
	Service(namespace, name string) (labels.Selector, bool)
}

// between are the kinds between pods and the objects that HPAs name: a
// LeaderWorkerSet's StatefulSets, a JobSet's Jobs, an InferenceService's
// Deployments. A kind that controls its pods itself need not be here.
var between = map[schema.GroupKind]schema.GroupVersionResource{
	{Group: "apps", Kind: "Deployment"}:  {Group: "apps", Version: "v1", Resource: "deployments"},
	{Group: "apps", Kind: "StatefulSet"}: {Group: "apps", Version: "v1", Resource: "statefulsets"},
	{Group: "batch", Kind: "Job"}:        {Group: "batch", Version: "v1", Resource: "jobs"},
}

// Hierarchy implements Above with informers. It keeps the metadata of the kinds
// between, and the selectors of Services.
type Hierarchy struct {
	pods     Pods
	between  map[schema.GroupKind]cache.SharedIndexInformer
	services cache.SharedIndexInformer
}

var _ Above = (*Hierarchy)(nil)

// NewHierarchy prepares the informers; Start runs them.
func NewHierarchy(pods Pods, meta metadata.Interface, client kubernetes.Interface) (*Hierarchy, error) {
	h := &Hierarchy{pods: pods, between: map[schema.GroupKind]cache.SharedIndexInformer{}}
	var errs []error
	for kind, resource := range between {
		i := informer(meta, resource, "")
		errs = append(errs, i.SetTransform(strip))
		h.between[kind] = i
	}
	h.services = informers.NewSharedInformerFactory(client, 0).Core().V1().Services().Informer()
	errs = append(errs, h.services.SetTransform(selectorOnly))
	return h, errors.Join(errs...)
}

// Start begins to list and watch, and returns at once.
func (h *Hierarchy) Start(stop <-chan struct{}) {
	for _, i := range h.between {
		go i.Run(stop)
	}
	go h.services.Run(stop)
}

// Ready implements Above.
func (h *Hierarchy) Ready() error {
	for _, i := range h.between {
		if !i.HasSynced() {
			return errors.New("the list of workloads is not complete yet: may we list and watch deployments, statefulsets and jobs?")
		}
	}
	if !h.services.HasSynced() {
		return errors.New("the list of Services is not complete yet: may we list and watch services?")
	}
	return nil
}

// maxObjects bounds the walk from one object to its pods.
const maxObjects = 100_000

// Owned implements Above. A pod may control other objects: the leader of a
// LeaderWorkerSet's group controls its workers' StatefulSet.
func (h *Hierarchy) Owned(namespace string, owner schema.GroupKind, name string) []string {
	type object struct {
		kind schema.GroupKind
		name string
	}
	var names []string
	todo := []object{{owner, name}}
	seen := map[object]bool{todo[0]: true}
	add := func(o object) bool {
		if seen[o] || len(seen) >= maxObjects {
			return false
		}
		seen[o] = true
		todo = append(todo, o)
		return true
	}
	for len(todo) > 0 {
		o := todo[0]
		todo = todo[1:]
		for _, pod := range h.pods.Owned(namespace, o.kind, o.name) {
			if add(object{schema.GroupKind{Kind: "Pod"}, pod}) {
				names = append(names, pod)
			}
		}
		for kind, i := range h.between {
			below, _ := i.GetIndexer().ByIndex(byOwner, ownerKey(namespace, o.kind, o.name)) // fails for an unknown index only
			for _, b := range below {
				add(object{kind, b.(*metav1.PartialObjectMetadata).Name})
			}
		}
	}
	slices.Sort(names)
	return names
}

// Service implements Above.
func (h *Hierarchy) Service(namespace, name string) (labels.Selector, bool) {
	o, there, err := h.services.GetIndexer().GetByKey(namespace + "/" + name)
	if err != nil || !there {
		return nil, false
	}
	s, ok := o.(*corev1.Service)
	if !ok {
		return nil, false
	}
	if len(s.Spec.Selector) == 0 {
		return nil, true // it would select the whole namespace
	}
	return labels.SelectorFromSet(s.Spec.Selector), true
}

// selectorOnly drops all of a Service but its name and selector before it is
// stored.
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
