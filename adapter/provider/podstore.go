package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
)

// podStore keeps only the name of each pod. All pods of a ReplicaSet have the
// same labels and owner, which are kept once per group, and selectors are
// matched against groups: the cost of a request grows with the workloads in the
// namespace and the pods in the answer, not with the cluster. A reflector fills
// it.
type podStore struct {
	mu         sync.RWMutex
	namespaces map[string]*podsOfNamespace
	// filled: a whole list has been stored.
	filled bool
}

type podsOfNamespace struct {
	pods    map[string]*podGroup // nil for a pod that is being deleted
	groups  map[string]*podGroup // by their labels and owner as text
	byOwner map[string][]*podGroup
}

// podGroup are pods that differ in name only.
type podGroup struct {
	key    string
	owner  string // see ownerKey; "" without
	labels labels.Set
	names  []string // sorted
}

var _ cache.TransformingStore = (*podStore)(nil)

func newPodStore() *podStore { return &podStore{namespaces: map[string]*podsOfNamespace{}} }

// Transformer strips objects as they arrive, since the reflector keeps the whole
// list of pods until Replace.
func (*podStore) Transformer() cache.TransformFunc { return strip }

// Add implements cache.ReflectorStore.
func (s *podStore) Add(o any) error {
	m, err := asMetadata(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(m.Namespace, m.Name)
	g := s.insert(m)
	if g == nil {
		return nil
	}
	at, _ := slices.BinarySearch(g.names, m.Name)
	g.names = slices.Insert(g.names, at, m.Name)
	return nil
}

// Update implements cache.ReflectorStore.
func (s *podStore) Update(o any) error { return s.Add(o) }

// Delete implements cache.ReflectorStore.
func (s *podStore) Delete(o any) error {
	m, err := asMetadata(o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(m.Namespace, m.Name)
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *podStore) Replace(list []any, _ string) error {
	fresh := newPodStore()
	for _, o := range list {
		m, err := asMetadata(o)
		if err != nil {
			return err
		}
		if g := fresh.insert(m); g != nil {
			g.names = append(g.names, m.Name)
		}
	}
	for _, n := range fresh.namespaces {
		for _, g := range n.groups {
			slices.Sort(g.names)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.namespaces, s.filled = fresh.namespaces, true
	return nil
}

// Resync implements cache.ReflectorStore: there are no event handlers.
func (*podStore) Resync() error { return nil }

// insert stores a pod and returns its group, whose names must include it; nil
// for a pod that is being deleted.
func (s *podStore) insert(m *metav1.PartialObjectMetadata) *podGroup {
	n := s.namespaces[m.Namespace]
	if n == nil {
		n = &podsOfNamespace{pods: map[string]*podGroup{}, groups: map[string]*podGroup{}, byOwner: map[string][]*podGroup{}}
		s.namespaces[m.Namespace] = n
	}
	if m.DeletionTimestamp != nil {
		n.pods[m.Name] = nil
		return nil
	}
	g := n.group(m)
	n.pods[m.Name] = g
	return g
}

func (n *podsOfNamespace) group(m *metav1.PartialObjectMetadata) *podGroup {
	owner := ""
	if keys, _ := ownerKeys(m); len(keys) > 0 { // has no errors
		owner = keys[0]
	}
	key := groupKey(owner, m.Labels)
	g := n.groups[key]
	if g == nil {
		g = &podGroup{key: key, owner: owner, labels: m.Labels}
		n.groups[key] = g
		if owner != "" {
			n.byOwner[owner] = append(n.byOwner[owner], g)
		}
	}
	return g
}

// groupKey separates its parts by characters that labels and names cannot
// contain.
func groupKey(owner string, ls map[string]string) string {
	var b strings.Builder
	b.WriteString(owner)
	for _, name := range slices.Sorted(maps.Keys(ls)) {
		b.WriteByte(0)
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(ls[name])
	}
	return b.String()
}

// remove deletes a pod, and its group if that is empty.
func (s *podStore) remove(namespace, name string) {
	n := s.namespaces[namespace]
	if n == nil {
		return
	}
	g := n.pods[name]
	delete(n.pods, name)
	if g != nil {
		if at, there := slices.BinarySearch(g.names, name); there {
			g.names = slices.Delete(g.names, at, at+1)
		}
		if len(g.names) == 0 {
			n.drop(g)
		}
	}
	if len(n.pods) == 0 {
		delete(s.namespaces, namespace)
	}
}

func (n *podsOfNamespace) drop(g *podGroup) {
	delete(n.groups, g.key)
	if g.owner == "" {
		return
	}
	others := slices.DeleteFunc(n.byOwner[g.owner], func(other *podGroup) bool { return other == g })
	if n.byOwner[g.owner] = others; len(others) == 0 {
		delete(n.byOwner, g.owner)
	}
}

func (s *podStore) synced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.filled
}

func (s *podStore) has(namespace, pod string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.namespaces[namespace]
	return n != nil && n.pods[pod] != nil
}

// matching returns the names of a namespace's pods that a selector matches,
// sorted.
func (s *podStore) matching(namespace string, selector labels.Selector) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.namespaces[namespace]
	if n == nil {
		return nil
	}
	var found []*podGroup
	for _, g := range n.groups {
		if selector.Matches(g.labels) {
			found = append(found, g)
		}
	}
	return names(found)
}

// controlled returns the names of the pods of a controller, sorted.
func (s *podStore) controlled(namespace, owner string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.namespaces[namespace]
	if n == nil {
		return nil
	}
	return names(n.byOwner[owner])
}

func names(groups []*podGroup) []string {
	total := 0
	for _, g := range groups {
		total += len(g.names)
	}
	if total == 0 {
		return nil
	}
	all := make([]string, 0, total)
	for _, g := range groups {
		all = append(all, g.names...)
	}
	if len(groups) > 1 {
		slices.Sort(all)
	}
	return all
}

func asMetadata(o any) (*metav1.PartialObjectMetadata, error) {
	m, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, fmt.Errorf("the list of pods has a %T in it", o)
	}
	return m, nil
}
