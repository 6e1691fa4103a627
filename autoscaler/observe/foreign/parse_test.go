package foreign

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	discoveryfake "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestUnreadable: an object of the wrong shape has an error with the field, and is neither gang nor
// quota.
func TestUnreadable(t *testing.T) {
	for k, spec := range map[Kind]string{
		VolcanoPodGroup: `{minMember: many}`, PluginsPodGroup: `{minResources: {cpu: [1]}}`,
		BuiltInPodGroup: `{schedulingPolicy: {gang: {minCount: x}}}`, KAIPodGroup: `{subGroups: [{minMember: x}]}`,
		KueueWorkload: `{podSets: {}}`, VolcanoJob: `{tasks: [{replicas: x}]}`, JobSet: `{replicatedJobs: [{template: 3}]}`,
		LeaderWorkerSet: `{leaderWorkerTemplate: {size: x}}`, Deployment: `{template: x}`, StatefulSet: `{replicas: x}`,
		KueueClusterQueue: `{cohort: 3}`, KueueCohort: `{resourceGroups: x}`, KueueLocalQueue: `{clusterQueue: 3}`,
		KueueFlavor:  `{nodeLabels: [x]}`,
		VolcanoQueue: `{capability: x}`, KAIQueue: `{resources: {gpu: {quota: lots}}}`, KAITopology: `{levels: x}`, DRASlice: `{devices: x}`,
	} {
		o := Parse(k, object(t, "metadata: {namespace: ml, name: x}\nspec: "+spec))
		if o.Err == nil || !strings.Contains(o.Err.Error(), string(k)+" ml/x: ") {
			t.Errorf("%s: err = %v", k, o.Err)
		} else if !strings.Contains(o.Err.Error(), "spec") && !strings.Contains(o.Err.Error(), "number") && !strings.Contains(o.Err.Error(), "quantit") {
			t.Errorf("%s: the error names no field: %v", k, o.Err)
		}
		if o.Group != nil || o.Maker != nil || o.Queue != nil || o.Levels != nil || o.Devices != nil {
			t.Errorf("%s is still something: %+v", k, o)
		}
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	var u unstructured.Unstructured
	require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
	return &u
}

// TestBounds: absurd numbers of pods and long annotations are not kept.
func TestBounds(t *testing.T) {
	o := Parse(LeaderWorkerSet, object(t, `
metadata: {namespace: ml, name: x, annotations: {gpuscale.io/gang: "false", other: "y", gpuscale.io/long: `+strings.Repeat("x", 2000)+`}}
spec: {replicas: 2000000000, leaderWorkerTemplate: {size: 2000000000, workerTemplate: {metadata: {annotations: {long: `+strings.Repeat("x", 2000)+`, short: "y"}}}}}`))
	if o.Err != nil || o.Maker.Sets != maxCount || o.Maker.Roles[1].Count != maxCount-1 {
		t.Fatalf("%v, %+v", o.Err, o.Maker)
	}
	if got := o.Maker.Roles[1].Template.Annotations; len(got) != 1 || got["short"] != "y" {
		t.Errorf("annotations of the template: %d", len(got))
	}
	// 64-bit numbers are large, not truncated to 32 bits.
	for _, n := range []string{"2147483648", "4294967298"} {
		for k, spec := range map[Kind]string{
			LeaderWorkerSet: `{replicas: N}`, JobSet: `{replicatedJobs: [{name: a, template: {spec: {parallelism: N}}}]}`,
			VolcanoJob: `{tasks: [{replicas: N}]}`, KueueWorkload: `{podSets: [{count: N}]}`, Deployment: `{replicas: N}`,
		} {
			o := Parse(k, object(t, "metadata: {name: x}\nspec: "+strings.ReplaceAll(spec, "N", n)))
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			if got := max(o.Maker.Sets, o.Maker.Roles[0].Count); got != maxCount {
				t.Errorf("%s of %s: %d pods", k, n, got)
			}
		}
	}
	jobs := strings.Repeat(`{name: a, replicas: 200, template: {spec: {template: {}}}}, `, 9)
	many := Parse(JobSet, object(t, "metadata: {name: x, annotations: {"+jobSetExclusive+": rack}}\nspec: {replicatedJobs: ["+jobs+"]}"))
	if many.Err != nil || len(many.Maker.Roles) > maxPlaces {
		t.Errorf("%v, %d templates of Jobs with places of their own", many.Err, len(many.Maker.Roles))
	}
	if len(o.Annotations) != 1 || o.Annotations["gpuscale.io/gang"] != "false" {
		t.Errorf("annotations %v", o.Annotations)
	}
}

// TestAbsurdAmounts: a quantity with a billion digits is rejected when read, since arithmetic with
// it would not end.
func TestAbsurdAmounts(t *testing.T) {
	const pod = `{spec: {containers: [{name: c, resources: {requests: {memory: "1e999999999"}}}]}}`
	for k, spec := range map[Kind]string{
		VolcanoPodGroup: `{minMember: 2, minResources: {nvidia.com/gpu: "1e999999999"}}`,
		LeaderWorkerSet: `{leaderWorkerTemplate: {workerTemplate: ` + pod + `}}`,
		JobSet:          `{replicatedJobs: [{name: a, template: {spec: {template: ` + pod + `}}}]}`,
		KueueWorkload:   `{podSets: [{name: a, template: ` + pod + `}]}`,
		Deployment:      `{template: {spec: {containers: [{name: c, resources: {requests: {rdma/hca: "-1"}}}]}}}`,
	} {
		if o := Parse(k, object(t, "metadata: {name: x}\nspec: "+spec)); o.Err == nil || !strings.Contains(o.Err.Error(), "is out of range") && !strings.Contains(o.Err.Error(), "rdma/hca is negative") || o.Maker != nil || o.Group != nil {
			t.Errorf("%s: %v", k, o.Err)
		}
	}
}

// FuzzParse: reading any object neither panics nor gives an absurd number of pods.
func FuzzParse(f *testing.F) {
	for _, spec := range []string{
		`{minMember: 3, minResources: {nvidia.com/gpu: 8}}`, `{schedulingPolicy: {gang: {minCount: 2}}}`,
		`{podSets: [{name: a, count: 2, minCount: 1, template: {spec: {containers: [{name: c}]}}}]}`,
		`{replicatedJobs: [{name: a, replicas: 2, dependsOn: [{name: b, status: Complete}], template: {spec: {parallelism: 3, completions: 2}}}]}`,
		`{replicas: 2, leaderWorkerTemplate: {size: 4}}`, `{cohort: c, resourceGroups: [{flavors: [{resources: [{name: nvidia.com/gpu, nominalQuota: 3}]}]}]}`,
		`{minSubGroup: 9, subGroups: [{name: a, parent: b, minMember: 9e9}, {name: b, parent: a}, {name: b, minSubGroup: -1}]}`,
		`{resources: {gpu: {quota: -1, limit: 0.5}}}`, `{deserved: {nvidia.com/gpu: "1e111111191999"}, parent: p}`,
		`{podSets: [{name: a, count: 2, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1e111111191999"}}}]}}}]}`,
		`{tier: 1, tierName: a, members: [{type: HyperNode, selector: {exactMatch: {name: a}}}, {type: Node, selector: {regexMatch: {pattern: "("}}}, {type: Node, selector: {labelMatch: {matchLabels: {a: b}}}}]}`,
		`{minMember: 2, networkTopology: {mode: hard, highestTierAllowed: 9e9, highestTierName: a}}`,
	} {
		f.Add(spec, `{conditions: [{type: QuotaReserved, status: "True"}], admission: {clusterQueue: q, podSetAssignments: [{name: a, count: 1}]}}`)
	}
	f.Fuzz(func(t *testing.T, spec, status string) {
		if len(spec)+len(status) > 4<<10 {
			return
		}
		var u unstructured.Unstructured
		if yaml.Unmarshal([]byte("metadata: {name: x}\nspec: "+spec+"\nstatus: "+status), &u.Object) != nil || u.Object == nil {
			return
		}
		for _, k := range slices.Sorted(maps.Keys(kinds)) {
			o := Parse(k, &u)
			if o.Group != nil && (o.Group.Min < 0 || o.Group.Min > maxCount) {
				t.Fatalf("%s: %+v", k, o.Group)
			}
			if o.Maker == nil {
				continue
			}
			for _, r := range o.Maker.Roles {
				if r.Count < 0 || r.Count > maxCount || r.Done < 0 || r.Done > maxCount {
					t.Fatalf("%s: %+v", k, r)
				}
			}
		}
	})
}

// TestProvisioningRequest: pods of PodTemplates are demand of a class that is served and may add nodes.
func TestProvisioningRequest(t *testing.T) {
	const spec = `
metadata: {namespace: ml, name: CLASS}
spec:
  provisioningClassName: CLASS
  parameters: {ValidUntilSeconds: "600"}
  podSets:
  - {count: 2, podTemplateRef: {name: worker}}
  - {count: 1, podTemplateRef: {name: leader}}`
	template := func(name string) *Object {
		return Parse(PodTemplate, object(t, `
metadata: {namespace: ml, name: `+name+`}
template: {spec: {containers: [{name: `+name+`, resources: {limits: {nvidia.com/gpu: "8"}}}]}}`))
	}
	of := func(class string) *Object {
		return Parse(ProvisioningRequest, object(t, strings.ReplaceAll(spec, "CLASS", class)))
	}
	all := Objects{}
	for _, o := range []*Object{of(AtomicScaleUp), of(CheckCapacity), of("queued.gke.io"), template("worker"), template("leader")} {
		all.Add(o)
	}
	got := all.Resolve([]string{AtomicScaleUp}).Sorted(ProvisioningRequest)
	if len(got) != 1 || got[0].Maker.Inactive || got[0].Request.ValidFor != 10*time.Minute || len(got[0].Maker.Roles) != 2 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []string{"worker", "leader"} {
		if r := got[0].Maker.Roles[i]; r.Count != 2-i || r.Template.Spec.Containers[0].Name != want {
			t.Errorf("role %d: %+v", i, r)
		}
	}
	if r := all.Sorted(ProvisioningRequest)[0].Maker.Roles[0]; len(r.Template.Spec.Containers) != 0 {
		t.Error("the cached object was written to")
	}
	delete(all[PodTemplate], PodTemplate.Of("ml", "leader"))
	got = all.Resolve([]string{AtomicScaleUp, CheckCapacity}).Sorted(ProvisioningRequest)
	if len(got) != 2 || got[0].Request.Missing != "leader" || !got[0].Maker.Inactive || !got[1].Maker.Inactive {
		t.Errorf("without a template: %+v", got)
	}
	for condition, over := range map[string]bool{"Provisioned": false, "BookingExpired": true, "Failed": true} {
		o := Parse(ProvisioningRequest, object(t, spec+"\nstatus: {conditions: [{type: "+condition+", status: \"True\"}]}"))
		if o.Maker.Over != over {
			t.Errorf("%s: over %v", condition, o.Maker.Over)
		}
	}
	bad := Parse(ProvisioningRequest, object(t, "metadata: {name: x}\nspec: {parameters: {ValidUntilSeconds: soon}}"))
	if bad.Err == nil || !strings.Contains(bad.Err.Error(), "spec.parameters.ValidUntilSeconds") || bad.Request != nil {
		t.Errorf("%v", bad.Err)
	}
}

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
	w := &Watcher{Client: objects, Discovery: apis, Changed: func() {}, Log: slog.New(slog.DiscardHandler)}
	if _, err := w.Objects(); !errors.Is(err, ErrNotYet) {
		t.Errorf("before it has asked: err = %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	refresh := func() {
		t.Helper()
		require.NoError(t, w.refresh(ctx))
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
	if o := got.Sorted(JobSet)[0]; o.Name != "train" || o.Maker == nil {
		t.Fatalf("%v", got)
	}
	apis.Resources = nil
	refresh()
	if got, err := w.Objects(); err != nil || len(got) != 0 {
		t.Errorf("it is gone: %v, %v", got, err)
	}
}

// TestDiscovery: an API server that lists its resources with its groups is asked for nothing more. A version
// that does not answer is an error for the kinds that are read, which stay, and for no others.
func TestDiscovery(t *testing.T) {
	group := func(name, version, freshness, resource string) string {
		return fmt.Sprintf(`{metadata: {name: %s}, versions: [{version: %s, freshness: %s, resources: [{resource: %s, responseKind: {group: %[1]s, version: %[2]s, kind: K}, scope: Namespaced, verbs: [list, watch]}]}]}`, name, version, freshness, resource)
	}
	var groups []string
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		asked[in.URL.Path]++
		items := ""
		if in.URL.Path == "/apis" {
			items = strings.Join(groups, ", ")
		}
		text, err := yaml.YAMLToJSON([]byte("{kind: APIGroupDiscoveryList, apiVersion: apidiscovery.k8s.io/v2, items: [" + items + "]}"))
		require.NoError(t, err)
		out.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		_, err = out.Write(text)
		require.NoError(t, err)
	}))
	defer server.Close()
	apis, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	w := &Watcher{Discovery: apis}
	groups = []string{
		group("apps", "v1", "Current", "deployments"), group("jobset.x-k8s.io", "v1alpha2", "Current", "jobsets"),
		group("kueue.x-k8s.io", "v1beta1", "Current", "workloads"), group("metrics.k8s.io", "v1beta1", "Stale", "pods"),
	}
	served, err := w.served()
	require.NoError(t, err)
	if len(served) != 3 || served[KueueWorkload].Version != "v1beta1" || served[JobSet].Version != "v1alpha2" || served[Deployment].Version != "v1" {
		t.Errorf("served %v", served)
	}
	delete(asked, "/api")
	delete(asked, "/apis")
	if len(asked) > 0 {
		t.Errorf("asked for %v besides", asked)
	}
	groups[2] = group("kueue.x-k8s.io", "v1beta2", "Stale", "workloads")
	if served, err := w.served(); err == nil {
		t.Errorf("a version that does not answer: %v", served)
	}
}

// TestChangesAreReported: a change of an object is reported at once, once; a status that is not
// read is not, nor is a Deployment, nor a NodeClaim until it has devices.
func TestChangesAreReported(t *testing.T) {
	jobSets := schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	claims := schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{jobSets: "JobSetList", deployments: "DeploymentList", claims: "NodeClaimList"})
	apis := &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{}}
	apis.Resources = []*metav1.APIResourceList{
		{GroupVersion: "jobset.x-k8s.io/v1alpha2", APIResources: []metav1.APIResource{{Name: "jobsets"}}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "deployments"}}},
		{GroupVersion: "karpenter.sh/v1", APIResources: []metav1.APIResource{{Name: "nodeclaims"}}},
	}
	reported := make(chan struct{}, 100)
	w := &Watcher{Client: objects, Discovery: apis, Changed: func() { reported <- struct{}{} }, Log: slog.New(slog.DiscardHandler)}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	require.NoError(t, w.refresh(ctx))
	wait := func(what string, done func() bool) {
		t.Helper()
		await.True(t, 5*time.Minute, what, done)
	}
	known := func(k Kind) *Object {
		all, err := w.Objects()
		if err != nil || len(all[k]) != 1 {
			return nil
		}
		return all.Sorted(k)[0]
	}
	wait("the first listing", func() bool { _, err := w.Objects(); return err == nil })

	text := "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {namespace: ml, name: train, resourceVersion: \"%d\"}\nspec: {suspend: %v, replicatedJobs: []}\nstatus: {restarts: %d}"
	put := func(version int, suspend bool) {
		t.Helper()
		o := object(t, fmt.Sprintf(text, version, suspend, version))
		_, err := objects.Resource(jobSets).Namespace("ml").Update(ctx, o, metav1.UpdateOptions{})
		require.NoError(t, err)
		wait("version "+o.GetResourceVersion(), func() bool { had := known(JobSet); return had != nil && had.ResourceVersion == o.GetResourceVersion() })
	}
	_, err := objects.Resource(jobSets).Namespace("ml").Create(ctx, object(t, fmt.Sprintf(text, 1, true, 1)), metav1.CreateOptions{})
	require.NoError(t, err)
	wait("an object that is new", func() bool { return len(reported) == 1 })
	put(2, true) // only its status
	put(3, false)
	wait("a deleted object", func() bool { return len(reported) == 2 })
	d := object(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: ml, name: web}")
	_, err = objects.Resource(deployments).Namespace("ml").Create(ctx, d, metav1.CreateOptions{})
	require.NoError(t, err)
	wait("a Deployment", func() bool { return known(Deployment) != nil })
	claim := "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: cpu}\nspec: {resources: {requests: {cpu: '4'%s}}}"
	_, err = objects.Resource(claims).Create(ctx, object(t, fmt.Sprintf(claim, "")), metav1.CreateOptions{})
	require.NoError(t, err)
	wait("a NodeClaim without devices", func() bool { return known(NodeClaim) != nil })
	require.NoError(t, objects.Resource(jobSets).Namespace("ml").Delete(ctx, "train", metav1.DeleteOptions{}))
	wait("an object that is gone", func() bool { return len(reported) == 3 })
	_, err = objects.Resource(claims).Update(ctx, object(t, fmt.Sprintf(claim, ", nvidia.com/gpu: '1'")), metav1.UpdateOptions{})
	require.NoError(t, err)
	wait("a NodeClaim with a GPU", func() bool { return len(reported) == 4 })
}
