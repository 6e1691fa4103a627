package observe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/randfill"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/plan"
)

// anything fills objects with random values of their types from few words, so that references match
// now and then.
func anything(seed int64) *randfill.Filler {
	words := []string{"", "a", "nvidia.com/gpu", "rdma/hca", "nvidia.com/mig-1g.10gb", "main", "Always", "PodScheduled", "False", "Unschedulable", "gpuscale.io/x", "train"}
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).Funcs(
		func(s *string, c randfill.Continue) { *s = words[c.Intn(len(words))] },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(int64(c.Intn(5)), resource.DecimalSI)
		},
		func(t *metav1.Time, c randfill.Continue) {
			*t = metav1.NewTime(start.Add(time.Duration(c.Intn(100)) * time.Second))
		},
		func(t *time.Time, c randfill.Continue) { *t = start.Add(time.Duration(c.Intn(100)) * time.Second) },
		func(v *sample.Value, c randfill.Continue) { *v = sample.Known(float64(c.Intn(5)), 0) },
		func(f *metav1.FieldsV1, _ randfill.Continue) {},
		func(l *corev1.ResourceList, c randfill.Continue) {
			*l = corev1.ResourceList{}
			for range c.Intn(4) {
				(*l)[corev1.ResourceName(words[1+c.Intn(4)])] = *resource.NewQuantity(int64(c.Intn(5)), resource.DecimalSI)
			}
		},
	)
}

// TestTrimmedPod: the planner's view of any pod equals that of its cached form, also
// after later pods that differ in one field share parts with it.
func TestTrimmedPod(t *testing.T) {
	trim, fields := TrimPods(), reflect.TypeFor[corev1.PodSpec]().NumField()
	var wholes, kept []*corev1.Pod
	shared := 0
	pairs := 120
	if testall.Enabled() {
		pairs = 400
	}
	for seed := range int64(pairs) {
		var whole, other corev1.Pod
		anything(seed).Fill(&whole)
		anything(400 + seed).Fill(&other)
		whole.Spec.Containers = append(whole.Spec.Containers, corev1.Container{Name: "c"})
		sibling, field := whole.DeepCopy(), int(seed)%fields
		reflect.ValueOf(&sibling.Spec).Elem().Field(field).Set(reflect.ValueOf(other.Spec).Field(field))
		for _, p := range []*corev1.Pod{&whole, sibling} {
			o, err := trim(p.DeepCopy())
			require.NoError(t, err)
			wholes, kept = append(wholes, p), append(kept, o.(*corev1.Pod))
		}
		if a, b := kept[2*seed].Spec.Containers, kept[2*seed+1].Spec.Containers; len(b) > 0 && &a[0] == &b[0] {
			shared++
		}
	}
	wanting, storing := 0, 0
	for i, whole := range wholes {
		want, got := plannedPod(whole), plannedPod(kept[i])
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("pod %d: trimmed %+v\nwhole %+v", i, got, want)
		}
		for _, v := range kept[i].Spec.Volumes {
			again := foreign.SlimVolumes([]corev1.Volume{v}, v1alpha1.IsLocal)
			if len(again) != 1 || !reflect.DeepEqual(again[0], v) {
				t.Fatalf("pod %d: kept %v", i, v)
			}
		}
		if got, want := claimsOf(kept[i]), claimsOf(whole); !slices.Equal(got, want) {
			t.Fatalf("pod %d: trimmed has claims %v, whole %v", i, got, want)
		}
		if len(kept[i].ManagedFields) > 0 {
			t.Fatalf("pod %d: kept %v", i, kept[i].ManagedFields)
		}
		if want.LocalStorage {
			storing++
		}
		if !want.Demand.Zero() || len(want.Others) > 0 {
			wanting++
		}
	}
	if wanting < pairs/4 || storing < pairs/5 || storing > 2*pairs*9/10 || shared < pairs/5 {
		t.Errorf("of %d pairs %d pods have demand, %d local storage, %d share: the test is too weak", pairs, wanting, storing, shared)
	}
}

// TestTrimmedNode is the same for nodes.
func TestTrimmedNode(t *testing.T) {
	o := &Observer{o: Options{MaxAge: time.Minute}, idle: map[idleKey]idleEntry{}}
	require.NoError(t, o.products.read(nil))
	for seed := range int64(400) {
		var whole corev1.Node
		anything(seed).Fill(&whole)
		if seed%2 == 0 { // a node of a pool
			offered := map[int64]string{0: "nvidia.com/gpu", 2: "nvidia.com/mig-3g.40gb"}[seed%4]
			whole.Status.Allocatable = node("n", corev1.ResourceList{corev1.ResourceName(offered): resource.MustParse("2")}).Status.Allocatable
			whole.Labels = node("n", nil).Labels
		}
		kept, err := TrimNode(whole.DeepCopy())
		require.NoError(t, err)
		read := func(n *corev1.Node) plan.Node {
			facts := readNode(NewClaims(nil, nil, nil, nil), n)
			in := nodeInput{node: n, facts: &facts, products: &o.products, now: start, ignored: &Ignored{}}
			report, _ := reported(in) // nil for one that is not trusted
			return o.node(in, report)
		}
		want, got := read(&whole), read(kept.(*corev1.Node))
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: trimmed %+v\nwhole %+v", seed, got, want)
		}
	}
}

// TestTrimKeepsGpuscaleAnnotations: gpuscale's annotations of nodes are kept at any length, of pods the first bytes;
// other annotations are kept only if they are short.
func TestTrimKeepsGpuscaleAnnotations(t *testing.T) {
	long := strings.Repeat("x", 2*maxKeptAnnotation)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{contract.TableAnnotation: long, "other.io/notes": long, "other.io/short": "y"}}}
	_, err := TrimNode(n)
	require.NoError(t, err)
	if n.Annotations[contract.TableAnnotation] != long || n.Annotations["other.io/notes"] != "" || n.Annotations["other.io/short"] != "y" {
		t.Errorf("annotations %d", len(n.Annotations))
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{datasetsAnnotation: long}}}
	_, err = TrimPods()(p)
	if err != nil || len(p.Annotations[datasetsAnnotation]) != maxKeptAnnotation {
		t.Errorf("%d bytes of a pod, %v", len(p.Annotations[datasetsAnnotation]), err)
	}
	if other, err := TrimPods()("no pod"); err != nil || other != "no pod" {
		t.Errorf("of another type: %v, %v", other, err)
	}
}

// TestDeviceClassChangesInvalidateCaches: the meaning of an extended resource can change although no pod or node
// changes.
func TestDeviceClassChangesInvalidateCaches(t *testing.T) {
	var pods perVersion[plan.Pod]
	var nodes perVersion[nodeFacts]
	list := corev1.ResourceList{"example.com/fast": resource.MustParse("1")}
	p, n := benchPod("a", "", 1), node("n", list)
	p.Spec.Containers[0].Resources.Requests = list
	n.UID, n.ResourceVersion = "u", "1"
	for _, c := range []struct {
		classes      []resourcev1.DeviceClass
		gpus, others int
	}{{nil, 0, 1}, {classesServing("example.com/fast"), 1, 0}} {
		claims := NewClaims(nil, nil, c.classes, nil)
		pods.begin(claims)
		nodes.begin(claims)
		got := pods.get(p, func() plan.Pod { return claims.ConvertPod(p) })
		facts := nodes.get(n, func() nodeFacts { return readNode(claims, n) })
		if got.Demand.GPUs != c.gpus || len(got.Others) != c.others || len(facts.Others) != c.others {
			t.Errorf("%d classes: %d GPUs, others %v, of the node %v", len(c.classes), got.Demand.GPUs, got.Others, facts.Others)
		}
	}
}

// classesServing is a class of whole GPUs that serves an extended resource.
func classesServing(name string) []resourcev1.DeviceClass {
	all := nvidiaClasses()[:1]
	all[0].Spec.ExtendedResourceName = &name
	return all
}

// planned is the planner's view of a pod. An empty selector equals none.
// claimsOf are the names of a pod's claims.
func claimsOf(p *corev1.Pod) []string {
	var out []string
	for i := range p.Spec.Volumes {
		if name := claimOfVolume(p.Name, &p.Spec.Volumes[i]); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func plannedPod(p *corev1.Pod) plan.Pod {
	out := NewClaims(nil, nil, nil, nil).ConvertPod(p)
	newRules(nil).of(p.Namespace, p.Labels, &p.Spec, &out)
	if len(out.NodeSelector) == 0 {
		out.NodeSelector = nil
	}
	return out
}

// TestPodsOfOneTemplateShareTheirSpec: pods of one template share their containers, whatever node, volumes and
// host name they have; pods of another template do not.
func TestPodsOfOneTemplateShareTheirSpec(t *testing.T) {
	trim := TrimPods()
	made := func(change func(*corev1.Pod)) *corev1.Pod {
		p := benchPod("p", "n", 2)
		change(p)
		o, err := trim(p)
		require.NoError(t, err)
		return o.(*corev1.Pod)
	}
	first := made(func(*corev1.Pod) {})
	other := made(func(p *corev1.Pod) {
		p.Name, p.Spec.NodeName, p.Spec.Hostname = "q", "m", "q-0"
		p.Spec.Volumes = []corev1.Volume{{Name: "token-x7f2k"}}
	})
	if &first.Spec.Containers[0] != &other.Spec.Containers[0] || other.Spec.NodeName != "m" || first.Spec.NodeName != "n" {
		t.Errorf("two of a template: on %s and %s, containers at %p and %p", first.Spec.NodeName, other.Spec.NodeName, &first.Spec.Containers[0], &other.Spec.Containers[0])
	}
	more := made(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("3")
	})
	if &first.Spec.Containers[0] == &more.Spec.Containers[0] {
		t.Error("a pod that requests more shares the containers of one that requests less")
	}
}

// TestInternedSpecsAreBounded: the number of interned specs is bounded.
func TestInternedSpecsAreBounded(t *testing.T) {
	var a alike
	for i := range 3*maxAlike + 1 {
		a.of(corev1.PodSpec{SchedulerName: fmt.Sprint(i)})
		if len(a.specs) > maxAlike {
			t.Fatalf("%d specs are remembered", len(a.specs))
		}
	}
}

// TestTrimmingIsRaceFree is for the race detector: a cached pod is read while others of its template, or the pod
// itself, are trimmed.
func TestTrimmingIsRaceFree(t *testing.T) {
	trim := TrimPods()
	o, err := trim(benchPod("p", "n", 2))
	require.NoError(t, err)
	first := o.(*corev1.Pod)
	want := NewClaims(nil, nil, nil, nil).ConvertPod(first)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			next := benchPod("p", "n", 2)
			if i%2 == 0 {
				next.Spec = first.Spec
			}
			for range 100 {
				if _, err := trim(next); err != nil {
					t.Error(err)
				}
				if got := NewClaims(nil, nil, nil, nil).ConvertPod(first); !reflect.DeepEqual(got, want) {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
		})
	}
	all.Wait()
}

// TestCachedObjects: whatever changes in nodes, pods and samples, a reconcile gives the same
// result as one without a cache.
func TestCachedObjects(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	c := fullCluster(9)
	readings := NewReadings(start, answersOf(c))
	options := Options{Cluster: c, Readings: func() *Readings { return readings }, Pools: sized{}, ConfigMap: partition.DefaultConfigMap}
	keeps, forgets := New(options), New(options)
	var before Observation
	former := "" // of the previous reconcile, whose GPUs must not change any more
	reconciles := 150
	if testall.Enabled() {
		reconciles = 400
	}
	for reconcile := range reconciles {
		now := start.Add(time.Duration(reconcile) * time.Second)
		n := &c.nodes[random.IntN(len(c.nodes))]
		if random.IntN(2) == 0 {
			changeNode(random, n)
			n.ResourceVersion = strconv.Itoa(100 + reconcile)
		}
		p := &c.pods[random.IntN(len(c.pods))]
		switch random.IntN(12) {
		case 0: // another node of the same name
			n.UID += "x"
		case 1: // it is removed, and another is added
			*n = *c.nodes[0].DeepCopy()
			n.Name, n.UID, n.ResourceVersion = fmt.Sprint("new-", reconcile), types.UID(fmt.Sprint("new-", reconcile)), "1"
		case 2: // a pod ends
			if len(c.pods) > 4 {
				i := random.IntN(len(c.pods))
				c.pods = append(c.pods[:i:i], c.pods[i+1:]...)
			}
		case 3, 4: // new samples
			readings = NewReadings(now, answersOf(c))
		case 5: // a pod changes; the version before is still used
			*p = *p.DeepCopy()
			p.ResourceVersion, p.Labels = strconv.Itoa(100+reconcile), map[string]string{"app": strconv.Itoa(reconcile)}
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(1+random.IntN(8)), resource.DecimalSI)}
		case 6: // another pod of the same name
			p.UID += "x"
			p.Spec.NodeName = c.nodes[random.IntN(len(c.nodes))].Name
		}
		forgets.nodes, forgets.pods = perVersion[nodeFacts]{}, perVersion[plan.Pod]{}
		got, err := keeps.Observe(t.Context(), now)
		want, wantErr := forgets.Observe(t.Context(), now)
		if err != nil || wantErr != nil {
			t.Fatal(err, wantErr)
		}
		if len(got.Nodes) != len(want.Nodes) {
			t.Fatalf("reconcile %d: %d nodes, want %d", reconcile, len(got.Nodes), len(want.Nodes))
		}
		for i := range want.Nodes {
			if !reflect.DeepEqual(got.Nodes[i], want.Nodes[i]) {
				t.Fatalf("reconcile %d: %+v\nread again %+v", reconcile, got.Nodes[i], want.Nodes[i])
			}
		}
		if !reflect.DeepEqual(got.Pods, want.Pods) {
			t.Fatalf("reconcile %d: pods %+v\nread again %+v", reconcile, got.Pods, want.Pods)
		}
		if len(keeps.nodes.now) != len(c.nodes) || len(keeps.pods.now) != len(got.Pods) {
			t.Fatalf("reconcile %d: %d nodes are known of %d, %d pods of %d", reconcile, len(keeps.nodes.now), len(c.nodes), len(keeps.pods.now), len(got.Pods))
		}
		if now := fmt.Sprintf("%+v", before.Nodes); former != "" && now != former {
			t.Fatalf("reconcile %d: the reconcile before has become %s\nwas %s", reconcile, now, former)
		}
		mine := map[*plan.GPU]string{}
		for i := range got.Nodes {
			if n := &got.Nodes[i]; len(n.GPUs) > 0 {
				if other := mine[&n.GPUs[0]]; other != "" {
					t.Fatalf("reconcile %d: %s has the GPUs of %s", reconcile, n.Name, other)
				}
				mine[&n.GPUs[0]] = n.Name
			}
		}
		before, former = got, fmt.Sprintf("%+v", got.Nodes)
	}
}

// changeNode changes one field of a node that is read.
func changeNode(random *rand.Rand, n *corev1.Node) {
	*n = *n.DeepCopy() // the former version is still used
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	either := func(m map[string]string, key, value string) {
		if _, ok := m[key]; ok {
			delete(m, key)
			return
		}
		m[key] = value
	}
	switch random.IntN(9) {
	case 0:
		n.Spec.Unschedulable = !n.Spec.Unschedulable
	case 1:
		n.Spec.Taints = []corev1.Taint{{Key: strconv.Itoa(random.IntN(3)), Effect: corev1.TaintEffectNoSchedule}}
	case 2:
		n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse(strconv.Itoa(random.IntN(9)))
	case 3:
		either(n.Annotations, v1alpha1.ScaleDownDisabledAnnotation, "true")
	case 4:
		either(n.Annotations, v1alpha1.CordonAnnotation, "x")
	case 5:
		either(n.Annotations, v1alpha1.DrainAnnotation, v1alpha1.Drain{Started: start, Deadline: start.Add(time.Hour), Reason: string(plan.NodeSick)}.String())
	case 6:
		either(n.Labels, juiceWorkerLabel, "true")
	case 7:
		n.Status.Conditions[0].Status = map[bool]corev1.ConditionStatus{true: corev1.ConditionTrue, false: corev1.ConditionUnknown}[random.IntN(2) == 0]
	case 8:
		n.Status.Allocatable["rdma/hca"] = resource.MustParse(strconv.Itoa(random.IntN(3)))
	}
}

// TestUnnumberedNodesAreReadAgain: without a UID and a version a change of a node cannot be
// detected.
func TestUnnumberedNodesAreReadAgain(t *testing.T) {
	var k perVersion[nodeFacts]
	claims := NewClaims(nil, nil, nil, nil)
	for _, n := range []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}}, {ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1"}},
	} {
		read := func() nodeFacts { return readNode(claims, n) }
		k.begin(claims)
		k.get(n, read)
		k.begin(claims)
		n.Spec.Unschedulable = true
		if !k.get(n, read).Cordoned {
			t.Errorf("UID %q, version %q: the cached facts are used", n.UID, n.ResourceVersion)
		}
	}
}

// index is a fake of a synced cache: a list is a shallow copy, as controller-runtime's without deep
// copies. It has no other objects.
type index struct {
	client.Reader
	nodes []corev1.Node
	pods  []corev1.Pod
	pools []v1alpha1.GPUNodePool
}

func (s *index) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.NodeList:
		l.Items = append([]corev1.Node(nil), s.nodes...)
	case *corev1.PodList:
		l.Items = append([]corev1.Pod(nil), s.pods...)
	case *v1alpha1.GPUNodePoolList:
		l.Items = append([]v1alpha1.GPUNodePool(nil), s.pools...)
	}
	return nil
}

func (s *index) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
}

// fullCluster has nodes of 8 GPUs, all allocated: to one pod, to two, or to eight.
func fullCluster(nodes int) *index {
	s := &index{pools: []v1alpha1.GPUNodePool{*pool("p")}}
	for n := range nodes {
		node := node(fmt.Sprintf("node-%05d", n), corev1.ResourceList{"cpu": resource.MustParse("128"), "nvidia.com/gpu": resource.MustParse("8")})
		node.UID, node.Labels[partition.CountLabel], node.ResourceVersion = types.UID(node.Name), "8", "1"
		s.nodes = append(s.nodes, *node)
		each := []int{8, 4, 1}[n%3]
		for i := range 8 / each {
			s.pods = append(s.pods, *benchPod(fmt.Sprintf("pod-%05d-%d", n, i), node.Name, each))
		}
	}
	return s
}

func benchPod(name, on string, gpus int) *corev1.Pod {
	list := corev1.ResourceList{
		"cpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI), "memory": *resource.NewQuantity(int64(gpus)<<30, resource.BinarySI),
		"nvidia.com/gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI),
	}
	p := pod(name, on, list)
	p.UID, p.ResourceVersion, p.Labels = types.UID(name), "1", map[string]string{"app": "train", "pod-template-hash": "5b8d7c9f6d"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "train-5b8d7c9f6d", UID: "rs", Controller: ptr.To(true)}}
	p.Spec.Containers[0].Resources.Limits = list
	p.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	p.Status.Phase = corev1.PodRunning
	return p
}

// answersOf returns Prometheus' answers for a full cluster.
func answersOf(s *index) Answers {
	var a Answers
	add := func(v *prom.Vector, value float64, labels ...string) { *v = append(*v, series(value, labels...)) }
	podsOn := map[string][]*corev1.Pod{}
	for i := range s.pods {
		p := &s.pods[i]
		podsOn[p.Spec.NodeName] = append(podsOn[p.Spec.NodeName], p)
	}
	for i := range s.nodes {
		name := s.nodes[i].Name
		add(&a.Age, 1, "node", name)
		for c := range 8 {
			who := ""
			if n := len(podsOn[name]); n > 0 {
				who = podsOn[name][c*n/8].Name
			}
			device := []string{"node", name, "gpu", strconv.Itoa(c), "gpu_uuid", fmt.Sprintf("GPU-%s-%d", name, c)}
			add(&a.Info, 1, append(device, "model", "NVIDIA H100 80GB HBM3", "mig", "false", "pci_bus_id", "00000000:0F:00.0", "driver_version", "570.86.15")...)
			add(&a.Allocated, 1, append(device, "namespace", "chat", "pod", who, "container", "main")...)
			add(&a.Busy, 0.9, append(device, "model", "NVIDIA H100 80GB HBM3", "namespace", "chat", "pod", who)...)
			add(&a.SampleAge, 1, device...)
			add(&a.Healthy, 1, device...)
		}
	}
	return a
}
