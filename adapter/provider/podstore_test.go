package provider

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/internal/testall"
)

// stored makes a pod as a reflector hands it over.
func stored(namespace, name, app, extra string, deleting bool) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{"app": app},
		OwnerReferences: controller("apps/v1", "StatefulSet", app),
	}}
	if extra != "" {
		m.Labels["extra"] = extra
	}
	if deleting {
		now := metav1.Now()
		m.DeletionTimestamp = &now
	}
	return m
}

// TestPodStoreSaysWhatAListSays plays random changes into a store and into a
// plain list of the same pods, and compares all that can be asked of both.
func TestPodStoreSaysWhatAListSays(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(testall.Seed(t, 1)), 2))
	store, list := newPodStore(), map[string]*metav1.PartialObjectMetadata{}
	pick := func() *metav1.PartialObjectMetadata {
		extra := ""
		if random.IntN(3) == 0 {
			extra = fmt.Sprint(random.IntN(3))
		}
		return stored(fmt.Sprint("n", random.IntN(3)), fmt.Sprint("p", random.IntN(12)), fmt.Sprint("a", random.IntN(3)), extra, random.IntN(6) == 0)
	}
	for step := range 500 {
		m := pick()
		key := m.Namespace + "/" + m.Name
		var err error
		switch random.IntN(20) {
		case 0, 1, 2, 3, 4, 5:
			delete(list, key)
			err = store.Delete(m)
		case 6:
			list = map[string]*metav1.PartialObjectMetadata{}
			var all []any
			for range random.IntN(20) {
				o := pick()
				list[o.Namespace+"/"+o.Name] = o
			}
			for _, o := range list {
				all = append(all, o)
			}
			err = store.Replace(all, "")
		default:
			list[key] = m
			err = store.Update(m)
		}
		if err != nil {
			t.Fatal(err)
		}
		compare(t, step, store, list)
		if t.Failed() {
			return
		}
	}
}

func compare(t *testing.T, step int, store *podStore, list map[string]*metav1.PartialObjectMetadata) {
	t.Helper()
	selectors := []labels.Selector{labels.Everything(), labels.Nothing()}
	for _, text := range []string{"app=a1", "app!=a1", "app in (a0,a2),extra", "!extra", "extra=2,app=a0"} {
		s, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		selectors = append(selectors, s)
	}
	for _, namespace := range []string{"n0", "n1", "n2", "nowhere"} {
		for _, s := range selectors {
			want := wanted(list, namespace, func(m *metav1.PartialObjectMetadata) bool { return s.Matches(labels.Set(m.Labels)) })
			if got := store.matching(namespace, s); !slices.Equal(got, want) {
				t.Errorf("step %d: in %s %q matches %v, want %v", step, namespace, s, got, want)
			}
		}
		for _, owner := range []string{"a0", "a1", "a2"} {
			want := wanted(list, namespace, func(m *metav1.PartialObjectMetadata) bool { return m.OwnerReferences[0].Name == owner })
			got := store.controlled(namespace, ownerKey(namespace, schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, owner))
			if !slices.Equal(got, want) {
				t.Errorf("step %d: in %s %s controls %v, want %v", step, namespace, owner, got, want)
			}
		}
		for i := range 12 {
			name := fmt.Sprint("p", i)
			m := list[namespace+"/"+name]
			if want := m != nil && m.DeletionTimestamp == nil; store.has(namespace, name) != want {
				t.Errorf("step %d: %s/%s there: %v, want %v", step, namespace, name, !want, want)
			}
		}
	}
	for name, n := range store.namespaces {
		if len(n.pods) == 0 || len(n.groups) > len(n.pods) {
			t.Errorf("step %d: namespace %s keeps %d groups for %d pods", step, name, len(n.groups), len(n.pods))
		}
	}
}

func wanted(list map[string]*metav1.PartialObjectMetadata, namespace string, ok func(*metav1.PartialObjectMetadata) bool) []string {
	var names []string
	for _, m := range list {
		if m.Namespace == namespace && m.DeletionTimestamp == nil && ok(m) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestPodStoreRefusesWhatIsNoPod(t *testing.T) {
	s := newPodStore()
	if s.Add("x") == nil || s.Delete(1) == nil || s.Replace([]any{nil}, "") == nil || s.synced() {
		t.Error("it takes what is no object's metadata")
	}
}

// BenchmarkPodStore is the memory of 100,000 pods, ten to a ReplicaSet, and
// the time to find ten of them. The goal is 15 MiB and 50 µs, with 1,000 pods
// in each namespace.
func BenchmarkPodStore(b *testing.B) {
	before := heap()
	s := newPodStore()
	for w := range 10_000 {
		for n := range 10 {
			if err := s.Add(stored(fmt.Sprint("team-", w%100), fmt.Sprintf("llm-%d-6b5d9c4f7-%05d", w, n), fmt.Sprint("llm-", w), "", false)); err != nil {
				b.Fatal(err)
			}
		}
	}
	held := float64(heap()-before) / (1 << 20)
	selector := labels.SelectorFromSet(labels.Set{"app": "llm-207"})
	b.ReportAllocs()
	for b.Loop() {
		if names := s.matching("team-7", selector); len(names) != 10 {
			b.Fatal(names)
		}
	}
	b.ReportMetric(held, "MiB-held")
}

// heap is what is in use of it, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
