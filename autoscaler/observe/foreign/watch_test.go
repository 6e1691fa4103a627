package foreign

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryfake "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestWatcher: nothing is said before the API has been asked; what it serves is
// seen, in the version that is understood; what it stops serving is gone.
func TestWatcher(t *testing.T) {
	jobSets := schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	o := object(t, `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {namespace: ml, name: train}
spec: {replicatedJobs: []}`)
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{jobSets: "JobSetList"}, o)
	apis := &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{}}
	w := NewWatcher(WatcherOptions{Client: objects, Discovery: apis})
	if _, err := w.Objects(); !errors.Is(err, ErrNotYet) {
		t.Errorf("before it has asked: err = %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	refresh := func() {
		t.Helper()
		if err := w.refresh(ctx); err != nil {
			t.Fatal(err)
		}
	}
	refresh()
	if got, err := w.Objects(); err != nil || len(got) != 0 {
		t.Errorf("nothing is served: %v, %v", got, err)
	}
	apis.Resources = []*metav1.APIResourceList{{GroupVersion: "jobset.x-k8s.io/v1alpha2", APIResources: []metav1.APIResource{{Name: "jobsets"}, {Name: "jobsets/status"}}}}
	refresh()
	var got Objects
	var err error
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if got, err = w.Objects(); err == nil && len(got[JobSet]) == 1 {
			break
		}
	}
	if err != nil || len(got[JobSet]) != 1 || got[JobSet][0].Name != "train" || got[JobSet][0].Maker == nil {
		t.Fatalf("%v, %v", got, err)
	}
	apis.Resources = nil
	refresh()
	if got, err := w.Objects(); err != nil || len(got) != 0 {
		t.Errorf("it is gone: %v, %v", got, err)
	}
}
