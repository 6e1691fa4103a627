package foreign

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	discoveryfake "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscale/gpuscale/internal/await"
)

// TestWatcher: there is no result before the first discovery; served kinds are read in a supported
// version; kinds that are not served any more are gone.
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
	await.For(t, 5*time.Minute, "the listing", func() (err error) {
		if got, err = w.Objects(); err == nil && len(got[JobSet]) != 1 {
			err = fmt.Errorf("%v", got)
		}
		return err
	})
	if got[JobSet][0].Name != "train" || got[JobSet][0].Maker == nil {
		t.Fatalf("%v", got)
	}
	apis.Resources = nil
	refresh()
	if got, err := w.Objects(); err != nil || len(got) != 0 {
		t.Errorf("it is gone: %v, %v", got, err)
	}
}

// TestChangesAreReported: a change of an object is reported at once, once; a status that is not
// read is not, nor is a Deployment.
func TestChangesAreReported(t *testing.T) {
	jobSets := schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{jobSets: "JobSetList", deployments: "DeploymentList"})
	apis := &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{}}
	apis.Resources = []*metav1.APIResourceList{
		{GroupVersion: "jobset.x-k8s.io/v1alpha2", APIResources: []metav1.APIResource{{Name: "jobsets"}}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments"}}},
	}
	reported := make(chan struct{}, 100)
	w := NewWatcher(WatcherOptions{Client: objects, Discovery: apis, Changed: func() { reported <- struct{}{} }})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := w.refresh(ctx); err != nil {
		t.Fatal(err)
	}
	wait := func(what string, done func() bool) {
		t.Helper()
		await.True(t, 5*time.Minute, what, done)
	}
	known := func(k Kind) *Object {
		all, err := w.Objects()
		if err != nil || len(all[k]) != 1 {
			return nil
		}
		return all[k][0]
	}
	wait("the first listing", func() bool { _, err := w.Objects(); return err == nil })

	text := "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {namespace: ml, name: train, resourceVersion: \"%d\"}\nspec: {suspend: %v, replicatedJobs: []}\nstatus: {restarts: %d}"
	put := func(version int, suspend bool) {
		t.Helper()
		o := object(t, fmt.Sprintf(text, version, suspend, version))
		if _, err := objects.Resource(jobSets).Namespace("ml").Update(ctx, o, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		wait("version "+o.GetResourceVersion(), func() bool { had := known(JobSet); return had != nil && had.ResourceVersion == o.GetResourceVersion() })
	}
	if _, err := objects.Resource(jobSets).Namespace("ml").Create(ctx, object(t, fmt.Sprintf(text, 1, true, 1)), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait("an object that is new", func() bool { return len(reported) == 1 })
	put(2, true) // only its status
	put(3, false)
	wait("a deleted object", func() bool { return len(reported) == 2 })
	d := object(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: ml, name: web}")
	if _, err := objects.Resource(deployments).Namespace("ml").Create(ctx, d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wait("a Deployment", func() bool { return known(Deployment) != nil })
	if err := objects.Resource(jobSets).Namespace("ml").Delete(ctx, "train", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wait("an object that is gone", func() bool { return len(reported) == 3 })
}
