package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/forecast"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

// reporting is a PoolReader with a fixed Listing.
type reporting struct {
	pools.Providers
	listing pools.Listing
	learned pools.Learned
	nodes   *int // of which it learned
}

func (s reporting) List(context.Context, *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return s.listing, nil
}

func (s reporting) Learn(_ *v1alpha1.GPUNodePool, _ int, nodes []*corev1.Node) pools.Learned {
	if s.nodes != nil {
		*s.nodes = len(nodes)
	}
	return s.learned
}

func TestListing(t *testing.T) {
	p := pool("p")
	p.Spec.PricePerHour = nil
	w := newWorld(t, p)
	for name, id := range map[string]string{"p-1": "aws:///eu-west-1a/i-1", "p-2": "aws:///eu-west-1a/i-2", "p-3": "aws:///eu-west-1a/i-3", "p-4": ""} {
		n := node(name, halves(2))
		n.Spec.ProviderID = id
		if err := w.client.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	for _, got := range w.at(0).Nodes {
		if got.Cordoned || got.NoScaleDown {
			t.Fatalf("%+v", got)
		}
	}
	until := start.Add(time.Hour)
	w.o.o.Pools = reporting{
		Providers: w.o.o.Pools.(pools.Providers),
		listing: pools.Listing{Target: 4, Unnamed: true, SpotPrice: ptr.To(24.5), Leaving: []pools.Leaving{
			{Instance: "i-1", Kind: pools.Interruption, At: start}, {Instance: "i-2", Kind: pools.Rebalance, At: start}, {Instance: "", Kind: pools.Interruption, At: start},
		}},
		learned: pools.Learned{ReadyAfter: 7 * time.Minute, Failures: 2, BackoffUntil: until},
	}
	seen := w.at(time.Second)
	if got := seen.Pools[0]; got.PricePerHour != 24.5 || got.ReadyAfter != 7*time.Minute || !got.BackoffUntil.Equal(until) {
		t.Errorf("price %g, ready after %s, backoff until %s", got.PricePerHour, got.ReadyAfter, got.BackoffUntil)
	}
	// An interruption comes two minutes after its notice; a recommendation has no time and cordons
	// the node all the same; a notice without an instance matches no node.
	leaves := map[string]time.Time{"p-1": start.Add(2 * time.Minute)}
	for _, got := range seen.Nodes {
		if cordoned := got.Name == "p-1" || got.Name == "p-2"; got.Cordoned != cordoned || got.CordonedBy != "" || !got.NoScaleDown || !got.LeavesAt.Equal(leaves[got.Name]) {
			t.Errorf("of a pool that is not scaled down: %+v", got)
		}
	}
	fixed, learned := w.o.o.Pools.(reporting), 0
	fixed.listing, fixed.nodes = pools.Listing{Target: 3, Going: []string{"i-1"}}, &learned
	w.o.o.Pools = fixed
	going := w.at(2 * time.Second)
	if learned != 3 { // with the fourth, a request for one more would look met
		t.Errorf("learned of %d nodes", learned)
	}
	if n, p := going.Nodes[0], going.Pools[0]; n.Pool != "" || !n.Cordoned || p.Size != 3 {
		t.Errorf("a removed node is of pool %q, whose size is %d; cordoned %v", n.Pool, p.Size, n.Cordoned)
	}
	if got := seen.Learned["p"].Failures; got != 2 {
		t.Errorf("%d failures", got)
	}
}

// together is a provider whose calls return only once all of them have been made.
type together struct {
	pools.Providers
	missing atomic.Int32
	all     chan struct{}
}

func (p *together) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (pools.Listing, error) {
	if p.missing.Add(-1) == 0 {
		close(p.all)
	}
	select {
	case <-p.all:
		return p.Providers.List(ctx, pool)
	case <-time.After(5 * time.Minute):
		return pools.Listing{}, errors.New("no other call was made")
	}
}

// TestProvidersAreListedConcurrently: a reconcile waits for the slowest provider, not for one after
// another.
func TestProvidersAreListedConcurrently(t *testing.T) {
	w := newWorld(t, pool("a"), pool("b"), pool("c"))
	slow := &together{Providers: w.o.o.Pools.(pools.Providers), all: make(chan struct{})}
	slow.missing.Store(3)
	w.o.o.Pools = slow
	if seen := w.at(0); len(seen.Pools) != 3 {
		t.Errorf("%d pools, want 3: %v", len(seen.Pools), seen.Invalid)
	}
}

func TestPoolsOverTheSameTarget(t *testing.T) {
	a, b, c := pool("a"), pool("b"), pool("p")
	for _, p := range []*v1alpha1.GPUNodePool{a, b} {
		p.Spec.Provider = v1alpha1.Provider{ASG: &v1alpha1.ASGProvider{Name: "g", Region: "eu-west-1"}}
	}
	w := newWorld(t, a, b, c, node("p-1", halves(2)))
	w.o.o.Pools = reporting{Providers: pools.Providers{GRPC: nodegroups.New(w.client, w.client, nil), ASG: pools.NewASG(pools.ASGOptions{})}, listing: pools.Listing{Target: 1}}
	seen := w.at(0)
	if pools.ReasonOf(seen.Invalid["b"]) != pools.ReasonShared || seen.Invalid["a"] != nil || seen.Invalid["p"] != nil {
		t.Errorf("%v", seen.Invalid)
	}
	if len(seen.Pools) != 2 {
		t.Errorf("%d valid pools, want 2", len(seen.Pools))
	}
}

const (
	zone    = corev1.LabelTopologyZone
	ebsZone = "topology.ebs.csi.aws.com/zone"
)

func persistent(name, class string, phase corev1.PersistentVolumePhase, terms ...corev1.NodeSelectorTerm) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PersistentVolumeStatus{Phase: phase}}
	v.Spec.StorageClassName = class
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: name}}
	if terms != nil {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
	}
	return v
}

func in(key string, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}
}

func pvc(class, bound string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "data"}}
	c.Spec.StorageClassName, c.Spec.VolumeName = &class, bound
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}
	return c
}

func class(mode storagev1.VolumeBindingMode, provisioner string, topologies ...corev1.TopologySelectorTerm) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disks"}, Provisioner: provisioner, VolumeBindingMode: &mode, AllowedTopologies: topologies}
}

func allowed(key string, values ...string) corev1.TopologySelectorTerm {
	return corev1.TopologySelectorTerm{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: key, Values: values}}}
}

// mounts is a pending pod with a volume of the claim "data".
func mounts() *corev1.Pod {
	p := pod("mounts", "", halves(1))
	p.Spec.Volumes = []corev1.Volume{
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
	}
	return p
}

// TestVolumes: where a pod's volumes can be used, and why they can be used nowhere. The trimmed
// objects say the same.
func TestVolumes(t *testing.T) {
	const later, now = storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate
	lost := pvc("disks", "gone")
	lost.Status.Phase = corev1.ClaimLost
	large := pvc("disks", "")
	large.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("100Gi")
	picky := pvc("disks", "")
	picky.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "fast"}}
	fast := persistent("fast", "disks", corev1.VolumeAvailable, in("kubernetes.io/hostname", "n7"))
	fast.Labels = map[string]string{"tier": "fast"}
	reserved := persistent("reserved", "disks", corev1.VolumeAvailable, in("kubernetes.io/hostname", "n8"))
	reserved.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "other", Name: "data"}
	labelled := persistent("old", "disks", corev1.VolumeBound)
	labelled.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: "a__b"}
	beta := pvc("", "")
	beta.Spec.StorageClassName, beta.Annotations = nil, map[string]string{corev1.BetaStorageClassAnnotation: "disks"}
	one, two := persistent("one", "disks", corev1.VolumeAvailable, in("kubernetes.io/hostname", "n1")), persistent("two", "disks", corev1.VolumeAvailable, in("kubernetes.io/hostname", "n2"))
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"no claim":              {nil, "PersistentVolumeClaim chat/data does not exist"},
		"bound, in a zone":      {[]client.Object{pvc("disks", "pv"), persistent("pv", "disks", corev1.VolumeBound, in(zone, "b"))}, zone + " In b"},
		"bound, on one node":    {[]client.Object{pvc("disks", "pv"), persistent("pv", "disks", corev1.VolumeBound, in("kubernetes.io/hostname", "n1"))}, "kubernetes.io/hostname In n1"},
		"bound, in two zones":   {[]client.Object{pvc("disks", "pv"), persistent("pv", "disks", corev1.VolumeBound, in(zone, "a"), in(zone, "b"))}, zone + " In a | " + zone + " In b"},
		"by a driver's label":   {[]client.Object{pvc("disks", "pv"), persistent("pv", "disks", corev1.VolumeBound, in(ebsZone, "b"))}, ebsZone + " In b | " + zone + " In b"},
		"by an old label":       {[]client.Object{pvc("disks", "old"), labelled}, corev1.LabelFailureDomainBetaZone + " In a,b | " + zone + " In a,b"},
		"bound, anywhere":       {[]client.Object{pvc("disks", "pv"), persistent("pv", "disks", corev1.VolumeBound)}, ""},
		"volume is gone":        {[]client.Object{pvc("disks", "pv")}, "PersistentVolumeClaim chat/data is bound to PersistentVolume pv, which does not exist"},
		"lost":                  {[]client.Object{lost}, "PersistentVolumeClaim chat/data has lost its volume"},
		"no class":              {[]client.Object{pvc("", "")}, "PersistentVolumeClaim chat/data is not bound to a volume, and has no StorageClass"},
		"unknown class":         {[]client.Object{pvc("disks", "")}, "PersistentVolumeClaim chat/data is not bound to a volume, and its StorageClass disks does not exist"},
		"immediate":             {[]client.Object{pvc("disks", ""), class(now, "d")}, "PersistentVolumeClaim chat/data is not bound to a volume yet, and the volumeBindingMode of StorageClass disks is Immediate"},
		"made anywhere":         {[]client.Object{pvc("disks", ""), class(later, "d")}, ""},
		"made anywhere, beta":   {[]client.Object{beta, class(later, "d")}, ""},
		"made in a zone":        {[]client.Object{pvc("disks", ""), class(later, "d", allowed(zone, "b", "c"))}, zone + " In b,c"},
		"made, or there":        {[]client.Object{pvc("disks", ""), class(later, "d", allowed(zone, "b")), one}, "kubernetes.io/hostname In n1 | " + zone + " In b"},
		"by hand":               {[]client.Object{pvc("disks", ""), class(later, noProvisioner), one, two, reserved}, "kubernetes.io/hostname In n1 | kubernetes.io/hostname In n2"},
		"by hand, none is left": {[]client.Object{pvc("disks", ""), class(later, noProvisioner), reserved, persistent("used", "disks", corev1.VolumeBound)}, "PersistentVolumeClaim chat/data is not bound to a volume: none of StorageClass disks is available for it"},
		"by hand, too small":    {[]client.Object{large, class(later, noProvisioner), one}, "PersistentVolumeClaim chat/data is not bound to a volume: none of StorageClass disks is available for it"},
		"by hand, selected":     {[]client.Object{picky, class(later, noProvisioner), one, fast}, "kubernetes.io/hostname In n7"},
	} {
		for _, trimmed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, trimmed %v", name, trimmed), func(t *testing.T) {
				objects := []client.Object{pool("p"), node("n", halves(2)), mounts()}
				for _, o := range c.objects {
					o = o.DeepCopyObject().(client.Object)
					if trimmed {
						if _, err := TrimVolume(o); err != nil {
							t.Fatal(err)
						}
					}
					objects = append(objects, o)
				}
				p := newWorld(t, objects...).seen("mounts")
				if got := p.Unbound + volumesText(p.Volumes); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
			})
		}
	}
}

func volumesText(all [][]plan.NodeTerm) string {
	var volumes []string
	for _, terms := range all {
		var texts []string
		for _, term := range terms {
			for _, r := range term {
				texts = append(texts, r.Key+" "+r.Operator+" "+strings.Join(r.Values, ","))
			}
		}
		volumes = append(volumes, strings.Join(texts, " | "))
	}
	return strings.Join(volumes, " & ")
}

// TestTrimVolume: the source of a volume, which may have the name of a secret, is not kept.
func TestTrimVolume(t *testing.T) {
	pv := persistent("pv", "disks", corev1.VolumeBound, in(zone, "b"))
	pv.Annotations = map[string]string{"notes": "x"}
	if _, err := TrimVolume(pv); err != nil {
		t.Fatal(err)
	}
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != "d" || pv.Spec.CSI.VolumeHandle != "" || pv.Annotations != nil || pv.Spec.NodeAffinity == nil {
		t.Errorf("kept %+v", pv)
	}
}

// TestRunningPodsVolumes: a pod that runs has its volumes' nodes, so that it is not moved to another
// zone, and is never unbound.
func TestRunningPodsVolumes(t *testing.T) {
	p := mounts()
	p.Spec.NodeName = "n"
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
	own := pvc("disks", "own")
	own.Name = "mounts-scratch"
	got := newWorld(t, pool("p"), node("n", halves(2)), p, own, persistent("own", "disks", corev1.VolumeBound, in(zone, "b"))).seen("mounts")
	if text := volumesText(got.Volumes); text != zone+" In b" || got.Unbound != "" {
		t.Errorf("volumes %s, unbound %q", text, got.Unbound)
	}
}

// TestHostPorts: containers' and sidecars' ports of the node, not those of init containers that end.
func TestHostPorts(t *testing.T) {
	p := pod("serves", "", halves(1))
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{
		{ContainerPort: 80}, {ContainerPort: 8080, HostPort: 8080, Protocol: corev1.ProtocolTCP, HostIP: "0.0.0.0"},
		{ContainerPort: 53, HostPort: 53, Protocol: corev1.ProtocolUDP, HostIP: "10.0.0.1"}, {ContainerPort: 53, HostPort: 53},
	}
	p.Spec.InitContainers = []corev1.Container{
		{Name: "side", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways), Ports: []corev1.ContainerPort{{HostPort: 9000}}},
		{Name: "ends", Ports: []corev1.ContainerPort{{HostPort: 9001}}},
	}
	want := []plan.HostPort{{Protocol: "TCP", Port: 53}, {Protocol: "TCP", Port: 8080}, {Protocol: "TCP", Port: 9000}, {Protocol: "UDP", Port: 53, IP: "10.0.0.1"}}
	if got := newWorld(t, pool("p"), p).seen("serves").HostPorts; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestDaemonPorts: a port that a DaemonSet takes on most ready nodes of a pool is taken on a new one.
func TestDaemonPorts(t *testing.T) {
	daemon := func(on string, port int32) *corev1.Pod {
		p := pod(fmt.Sprintf("d-%s-%d", on, port), on, nil)
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: ptr.To(true)}}
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port}}
		return p
	}
	server := pod("server", "n1", halves(1))
	server.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 8080}}
	out := newWorld(t, pool("p"), node("n1", halves(2)), node("n2", halves(2)), node("n3", halves(2)), server,
		daemon("n1", 9100), daemon("n2", 9100), daemon("n1", 9200)).at(0)
	if want := []plan.HostPort{{Protocol: "TCP", Port: 9100}}; !slices.Equal(out.Pools[0].Template.HostPorts, want) {
		t.Errorf("got %v, want %v", out.Pools[0].Template.HostPorts, want)
	}
}

// TestVolumeChoosesPool: a pending pod gets a node of the pool in its volume's zone, not of the cheaper one.
func TestVolumeChoosesPool(t *testing.T) {
	zonal := func(name, where, price string) client.Object {
		p := pool(name)
		p.Spec.Min, p.Spec.PricePerHour, p.Spec.Template.Labels = 0, ptr.To(resource.MustParse(price)), map[string]string{zone: where}
		return p
	}
	waits := mounts()
	waits.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	out := newWorld(t, zonal("za", "a", "1"), zonal("zb", "b", "9"), waits, pvc("disks", "pv"),
		persistent("pv", "disks", corev1.VolumeBound, in(ebsZone, "b"))).at(0)
	actions := plan.Make(out.Snapshot, plan.DefaultPolicy()).Actions
	if len(actions) != 1 || actions[0].Verb != plan.ScaleUp || actions[0].Pool != "zb" {
		t.Errorf("actions %+v, want a node of zb", actions)
	}
}

// TestAttachableVolumes: a node to which no more volumes of a driver can be attached takes no pod with
// one; a new node of its pool is expected to take as many.
func TestAttachableVolumes(t *testing.T) {
	for most, want := range map[int32]int{1: 1, 2: 0} {
		p := pool("p")
		p.Spec.Min, p.Spec.Max = 0, 5
		p.Spec.MIG, p.Spec.Template.Product, p.Spec.Template.GPUs = nil, "NVIDIA-L40S", 2
		n := node("n", corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("64Gi"), "nvidia.com/gpu": resource.MustParse("2")})
		n.Labels[partition.ProductLabel], n.Labels[partition.CountLabel] = "NVIDIA-L40S", "2"
		n.Spec.Taints = nil
		one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		there, waits := pod("there", "n", one), pod("waits", "", one)
		there.Spec.Volumes, waits.Spec.Volumes = mounts().Spec.Volumes, mounts().Spec.Volumes
		waits.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		waits.Spec.Volumes[1].PersistentVolumeClaim.ClaimName = "more"
		more := pvc("disks", "")
		more.Name = "more"
		limit := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "d", NodeID: "n", Allocatable: &storagev1.VolumeNodeResources{Count: &most}},
		}}}
		out := newWorld(t, p, n, there, waits, pvc("disks", "pv"), more, limit,
			persistent("pv", "disks", corev1.VolumeBound), class(storagev1.VolumeBindingWaitForFirstConsumer, "d")).at(0)
		made := 0
		for _, a := range plan.Make(out.Snapshot, plan.DefaultPolicy()).Actions {
			if a.Verb == plan.ScaleUp {
				made += a.To - a.From
			}
		}
		if made != want {
			t.Errorf("with places for %d volumes %d nodes are added, want %d", most, made, want)
		}
	}
}

// TestSettledRequestsAreNotChecked: the pods of a check are made only while it is to be answered.
func TestSettledRequestsAreNotChecked(t *testing.T) {
	for status, pods := range map[string]int{"{}": 2, `{conditions: [{type: Provisioned, status: "True"}]}`: 0, `{conditions: [{type: Failed, status: "True"}]}`: 0} {
		w := newWorld(t)
		w.neighbour(foreign.PodTemplate, `{metadata: {namespace: chat, name: t}, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}`)
		w.neighbour(foreign.ProvisioningRequest, `{metadata: {namespace: chat, name: r}, status: `+status+`,
spec: {provisioningClassName: check-capacity.autoscaling.x-k8s.io, podSets: [{count: 2, podTemplateRef: {name: t}}]}}`)
		all, _ := w.o.o.Foreign()
		w.o.o.Foreign = func() (foreign.Objects, error) { return all.Resolve([]string{foreign.CheckCapacity}), nil }
		if r := w.at(0).Requests; len(r) != 1 || len(r[0].Check) != pods {
			t.Errorf("%s: %+v, want %d pods", status, r, pods)
		}
	}
}

// neighbour adds an object of another API to the world.
func (w *world) neighbour(k foreign.Kind, text string) {
	w.t.Helper()
	var u unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		w.t.Fatal(err)
	}
	o := foreign.Parse(k, &u)
	if o.Err != nil {
		w.t.Fatal(o.Err)
	}
	had, _ := w.o.o.Foreign()
	if had == nil {
		had = foreign.Objects{}
	}
	had[k] = append(had[k], o)
	w.o.o.Foreign = func() (foreign.Objects, error) { return had, nil }
}

// TestTemplatesGetDefaults: LimitRange defaults, the priority of a class, and
// the rules of the template apply to pods that do not exist yet.
func TestTemplatesGetDefaults(t *testing.T) {
	w := newWorld(t, pool("p"),
		&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "l"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{"cpu": resource.MustParse("3")},
		}}}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 700},
		&v1alpha1.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: v1alpha1.GPUQuotaSpec{
			Tenants: v1alpha1.Tenants{Namespaces: []string{"chat"}}, Amounts: []v1alpha1.QuotaAmount{{Model: "any"}},
		}},
	)
	w.neighbour(foreign.LeaderWorkerSet, `
metadata: {namespace: chat, name: vllm}
spec:
  leaderWorkerTemplate:
    size: 2
    workerTemplate:
      metadata: {labels: {app: vllm}}
      spec:
        priorityClassName: urgent
        containers: [{name: c, resources: {limits: {nvidia.com/mig-3g.40gb: 1, rdma/hca: 2}}}]
        topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: vllm}}}]`)
	out := w.at(0)
	if len(out.Pods) != 2 {
		t.Fatalf("pods %+v", out.Pods)
	}
	p := out.Pods[0]
	if !p.Unmade || !p.Unschedulable || p.CPUMilli != 3000 || p.Priority != 700 || p.Tenant != "team" || p.Gang != "chat/lws/vllm/0" || p.GangMin != 2 ||
		fmt.Sprint(p.Demand) != "3g.40gb×1" || fmt.Sprint(p.Others) != "[{rdma/hca 2}]" {
		t.Errorf("%+v, requests %s", p, p.Demand)
	}
	if len(p.Groups) != 1 || !slices.Equal(p.Spread, []plan.Spread{{Rule: plan.Rule{Key: "zone", Group: p.Groups[0]}, MaxSkew: 1, MinDomains: 3, IgnoreAffinity: true, HonorTaints: true}}) {
		t.Errorf("groups %q, spread %+v", p.Groups, p.Spread)
	}
	if len(out.Tenants) != 1 || out.Tenants[0].Name != "team" {
		t.Errorf("tenants %+v", out.Tenants)
	}
}

// TestNoObservationBeforeForeignObjects: until other APIs are listed nothing is decided, since members of a
// gang would look like single pods.
func TestNoObservationBeforeForeignObjects(t *testing.T) {
	w := newWorld(t, pool("p"))
	w.o.o.Foreign = func() (foreign.Objects, error) { return nil, foreign.ErrNotYet }
	if _, err := w.o.Observe(t.Context(), start); !errors.Is(err, foreign.ErrNotYet) {
		t.Errorf("err = %v", err)
	}
}

// TestTopologyRules: a rule of one pod about others has one group wherever it occurs, and pods of
// other namespaces are in it only where selected.
func TestTopologyRules(t *testing.T) {
	term := func(namespaces ...string) []corev1.PodAffinityTerm {
		return []corev1.PodAffinityTerm{{TopologyKey: "host", Namespaces: namespaces, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}}}
	}
	a := pod("a", "n", halves(1))
	a.Labels = map[string]string{"app": "a"}
	b := pod("b", "n", halves(1))
	b.Spec.Affinity = &corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term()},
		PodAffinity:     &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("other", "chat")},
	}
	far := pod("far", "n", halves(1))
	far.Namespace, far.Labels = "other", map[string]string{"app": "a"}
	w := newWorld(t, pool("p"), node("n", halves(2)), a, b, far)
	pods := map[string]plan.Pod{}
	for _, p := range w.at(0).Pods {
		pods[p.Name] = p
	}
	apart, near := pods["b"].Apart, pods["b"].Near
	if len(apart) != 1 || len(near) != 1 || apart[0].Key != "host" {
		t.Fatalf("apart %v, near %v", apart, near)
	}
	in := func(p, group string) bool {
		return strings.Contains("|"+strings.Join(pods[p].Groups, "|")+"|", "|"+group+"|")
	}
	if !in("a", apart[0].Group) || in("far", apart[0].Group) || in("b", apart[0].Group) {
		t.Errorf("apart from %q: a %q, far %q, b %q", apart[0].Group, pods["a"].Groups, pods["far"].Groups, pods["b"].Groups)
	}
	if !in("a", near[0].Group) || !in("far", near[0].Group) {
		t.Errorf("near %q: a %q, far %q", near[0].Group, pods["a"].Groups, pods["far"].Groups)
	}
}

// TestOthers: other extended resources are counted too; a pool's nodes define what a new one will
// have.
func TestOthers(t *testing.T) {
	n := node("n", halves(2))
	n.Status.Allocatable["rdma/hca"] = resource.MustParse("8")
	m := node("m", halves(2))
	m.Status.Allocatable["rdma/hca"] = resource.MustParse("4")
	w := newWorld(t, pool("p"), n, m)
	out := w.at(0)
	if got := fmt.Sprint(out.Pools[0].Template.Others); got != "[{rdma/hca 4}]" {
		t.Errorf("a new node has %s", got)
	}
	for _, n := range out.Nodes {
		if len(n.Others) != 1 || n.Others[0].Name != "rdma/hca" {
			t.Errorf("%s has %v: MIG resources are GPUs, not others", n.Name, n.Others)
		}
	}
}

// TestQuotaProblemsAreIsolated: a circle of quotas is reported for them, and everything else is
// unaffected.
func TestQuotaProblemsAreIsolated(t *testing.T) {
	q := func(name, parent string) *v1alpha1.GPUQuota {
		return &v1alpha1.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.GPUQuotaSpec{Parent: parent, Amounts: []v1alpha1.QuotaAmount{{Model: "any"}}}}
	}
	w := newWorld(t, pool("p"), node("n", halves(2)), q("a", "b"), q("b", "a"), q("c", ""))
	out := w.at(0)
	if len(out.Tenants) != 3 || len(out.Pools) != 1 || len(out.Nodes) != 1 || len(out.QuotaProblems) != 2 {
		t.Errorf("tenants %v, problems %v", out.Tenants, out.QuotaProblems)
	}
}

// past answers range queries.
type past func(promql string) ([]prom.Line, error)

func (p past) Range(_ context.Context, promql string, _, _ time.Time, _ time.Duration) ([]prom.Line, error) {
	return p(promql)
}

// TestForecasts: a series becomes replicas of its workload; what is unknown has a reason and is not
// zero.
func TestForecasts(t *testing.T) {
	steady := func(string) ([]prom.Line, error) {
		var l prom.Line
		for i := range 200 {
			l.Points = append(l.Points, prom.Point{Time: start.Add(time.Duration(i-200) * time.Minute), Value: 40})
		}
		return []prom.Line{l}, nil
	}
	for name, c := range map[string]struct {
		past   past
		after  time.Duration
		unsure string
	}{
		"steady":  {past: steady},
		"away":    {past: func(string) ([]prom.Line, error) { return nil, prom.ErrUnavailable }, unsure: "Prometheus does not answer: "},
		"nothing": {past: func(string) ([]prom.Line, error) { return nil, nil }, unsure: "the query has no series"},
		"two":     {past: func(string) ([]prom.Line, error) { return make([]prom.Line, 2), nil }, unsure: "put sum() around it"},
		"overdue": {past: steady, after: time.Hour, unsure: "overdue"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pool("p"))
			w.neighbour(foreign.Deployment, `
metadata: {namespace: chat, name: vllm}
spec: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/mig-3g.40gb: 1}}}]}}}`)
			o := NewOutlooks(c.past, []Series{{
				Namespace: "chat", Kind: "Deployment", Name: "vllm", Query: "q", PerReplica: 4, Horizon: 10 * time.Minute, History: 4 * time.Hour, Step: time.Minute,
			}}, time.Minute, nil)
			o.Once(t.Context(), start)
			w.o.o.Outlooks = o.Latest
			out := w.at(c.after)
			if len(out.Forecasts) != 1 {
				t.Fatalf("forecasts %+v", out.Forecasts)
			}
			f := out.Forecasts[0]
			if c.unsure != "" {
				if !strings.Contains(f.Unsure, c.unsure) {
					t.Errorf("unsure %q, want %q", f.Unsure, c.unsure)
				}
				return
			}
			if f.Unsure != "" || f.Name != "chat/vllm" || f.Expected < 9.9 || f.Expected > 10.1 || f.Error > 0.01 || f.Have != 0 || fmt.Sprint(f.Like.Demand) != "3g.40gb×1" {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestResourceQuotaBesideGPUQuota: no node is added for pods that the API server would
// refuse, whatever other quota admits them, and the verdict names the quota.
func TestResourceQuotaBesideGPUQuota(t *testing.T) {
	const name = corev1.ResourceName("requests.nvidia.com/gpu")
	amounts := func(n string) corev1.ResourceList { return corev1.ResourceList{name: resource.MustParse(n)} }
	large := pool("p")
	large.Spec.Min, large.Spec.MIG, large.Spec.Template.GPUs = 0, nil, 8
	for used, want := range map[string]string{
		"0": "2 of team",
		"1": "0 of team, 2 of resourcequota/chat/gpus/no-more/requests.nvidia.com/gpu", // a gang's pods are created all or none
	} {
		w := newWorld(t, large,
			&v1alpha1.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: v1alpha1.GPUQuotaSpec{
				Tenants: v1alpha1.Tenants{Namespaces: []string{"chat"}}, Amounts: []v1alpha1.QuotaAmount{{Model: "any", Guaranteed: ptr.To(resource.MustParse("50"))}},
			}},
			&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "gpus"}, Spec: corev1.ResourceQuotaSpec{Hard: amounts("16")},
				Status: corev1.ResourceQuotaStatus{Hard: amounts("16"), Used: amounts(used)}},
		)
		w.neighbour(foreign.LeaderWorkerSet, `
metadata: {namespace: chat, name: vllm}
spec: {leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}}}}`)
		out := w.at(0)
		of := map[string]int{}
		for _, p := range out.Pods {
			of[p.Tenant]++
		}
		got := fmt.Sprintf("%d of team", of["team"])
		for tenant, n := range of {
			if tenant != "team" {
				got += fmt.Sprintf(", %d of %s", n, tenant)
			}
		}
		if got != want {
			t.Errorf("%s used: %s, want %s", used, got, want)
		}
		made := plan.Make(out.Snapshot, plan.DefaultPolicy())
		if scaledUp := len(made.Actions) > 0; scaledUp != (used == "0") {
			t.Errorf("%s used: %s", used, made)
		}
		if used != "0" && !strings.Contains(made.String(), "resourcequota/chat/gpus/no-more/requests.nvidia.com/gpu") {
			t.Errorf("the answer does not name the quota: %s", made)
		}
	}
}

func hpaFor(name, kind, target string, conditions ...autoscalingv2.HorizontalPodAutoscalerCondition) *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: kind, Name: target}, MaxReplicas: 5,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{CurrentReplicas: 2, DesiredReplicas: 3, Conditions: conditions},
	}
}

func condition(kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason string) autoscalingv2.HorizontalPodAutoscalerCondition {
	return autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind, Status: status, Reason: reason}
}

// TestHPAs: an HPA is listed if its pods request GPUs; without pods, its target's
// template decides and is read once.
func TestHPAs(t *testing.T) {
	running := pod("vllm-0", "n", halves(1))
	running.OwnerReferences = []metav1.OwnerReference{{Controller: ptr.To(true), Kind: "StatefulSet", Name: "vllm"}}
	plain := pod("web-0", "n", corev1.ResourceList{"cpu": resource.MustParse("1")})
	plain.OwnerReferences = []metav1.OwnerReference{{Controller: ptr.To(true), Kind: "StatefulSet", Name: "web"}}
	template := func(name string, requests corev1.ResourceList) *foreign.Object {
		return &foreign.Object{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name}, Maker: &foreign.Maker{Roles: []foreign.Role{{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}}}},
		}}}}
	}
	asleep, website := template("asleep", halves(2)), template("website", corev1.ResourceList{"cpu": resource.MustParse("1")})
	w := newWorld(t, pool("p"), node("n", halves(2)), running, plain,
		hpaFor("vllm", "StatefulSet", "vllm",
			condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "ReadyForNewScale"),
			condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, "FailedGetPodsMetric"),
			condition(autoscalingv2.ScalingLimited, corev1.ConditionTrue, "TooManyReplicas")),
		hpaFor("web", "StatefulSet", "web"), hpaFor("asleep", "Deployment", "asleep"), hpaFor("website", "Deployment", "website"),
		hpaFor("lost", "Deployment", "gone"))
	w.o.o.Foreign = func() (foreign.Objects, error) {
		return foreign.Objects{foreign.Deployment: {asleep, website}}, nil
	}
	for range 2 { // the second time from the cache
		got := w.at(0).HPAs
		if len(got) != 2 || got[0].Name != "asleep" || got[1].Name != "vllm" {
			t.Fatalf("%+v", got)
		}
		if a := got[0]; a.Seen || a.Min != 1 || a.Max != 5 || len(a.Limits) > 0 {
			t.Errorf("%+v: its controller has never looked at it", a)
		}
		if v := got[1]; !v.Seen || v.Current != 2 || v.Desired != 3 || !slices.Equal(v.Limits, []string{"FailedGetPodsMetric", "TooManyReplicas"}) {
			t.Errorf("%+v", v)
		}
	}
	if len(w.o.requesting) != 2 || !w.o.requesting[asleep] || w.o.requesting[website] {
		t.Errorf("cached %v", w.o.requesting)
	}
}

// TestRefusedReplicasExpire: replicas that an HPA requests and that are never created, for a reason that
// no quota explains, are no demand after ten minutes: a node would be kept for them for ever.
func TestRefusedReplicasExpire(t *testing.T) {
	for name, c := range map[string]struct {
		scaled time.Duration // before now
		quota  bool
		want   int // missing replicas that are demand
	}{
		"just now":                   {time.Minute, false, 1},
		"long ago":                   {20 * time.Minute, false, 0},
		"long ago, a quota explains": {20 * time.Minute, true, 1},
	} {
		h := hpaFor("vllm", "StatefulSet", "vllm")
		h.Status.DesiredReplicas, h.Status.CurrentReplicas = 1, 0
		h.Status.LastScaleTime = ptr.To(metav1.NewTime(start.Add(-c.scaled)))
		objects := []client.Object{poolOf("NVIDIA-L40S", 1), bare("n", amount("nvidia.com/gpu", 1)), h}
		if c.quota {
			objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "chat"}}, &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "none"},
				Spec:       corev1.ResourceQuotaSpec{Hard: amount("requests.nvidia.com/gpu", 0)},
				Status:     corev1.ResourceQuotaStatus{Hard: amount("requests.nvidia.com/gpu", 0), Used: amount("requests.nvidia.com/gpu", 0)},
			})
		}
		w := newWorld(t, objects...)
		w.o.o.Foreign = func() (foreign.Objects, error) {
			return foreign.Objects{foreign.StatefulSet: {{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "vllm"}, Kind: foreign.StatefulSet, Maker: &foreign.Maker{Sets: 1, Roles: []foreign.Role{{
				Count: 1, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amount("nvidia.com/gpu", 1)}}}}},
			}}}}}}, nil
		}
		got := 0
		for _, p := range w.at(0).Pods {
			if p.Unmade {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s: %d replicas are demand, want %d", name, got, c.want)
		}
	}
}

// A forecast for a holiday follows the weekend before, and the log says so once.
func TestForecastOfAHoliday(t *testing.T) {
	now := time.Date(2026, 12, 25, 6, 0, 0, 0, time.UTC)
	week := past(func(string) ([]prom.Line, error) {
		var l prom.Line
		for at := now.AddDate(0, 0, -7); !at.After(now); at = at.Add(5 * time.Minute) {
			x := 2.0
			if d := at.Weekday(); at.Hour() >= 7 && at.Hour() < 19 && d != time.Saturday && d != time.Sunday {
				x = 10
			}
			l.Points = append(l.Points, prom.Point{Time: at, Value: x})
		}
		return []prom.Line{l}, nil
	})
	var log bytes.Buffer
	o := NewOutlooks(week, []Series{{
		Namespace: "chat", Kind: "Deployment", Name: "vllm", Query: "q", PerReplica: 1, Horizon: 2 * time.Hour, History: 7 * 24 * time.Hour, Step: 5 * time.Minute,
		Holidays: forecast.NewHolidays(time.UTC, []time.Weekday{time.Saturday, time.Sunday}, []time.Time{now}),
	}}, time.Minute, slog.New(slog.NewTextHandler(&log, nil)))
	o.Once(t.Context(), now)
	o.Once(t.Context(), now)
	_, expected, _, _, unsure := o.Latest()[0].replicas()
	if unsure != "" || expected < 1.9 || expected > 2.1 {
		t.Errorf("%v replicas, unsure %q: want the weekend's 2", expected, unsure)
	}
	if n := strings.Count(log.String(), `msg="forecast for a holiday" workload=Deployment/chat/vllm why="2026-12-25 is a holiday`); n != 1 {
		t.Errorf("the log says it %d times, want once:\n%s", n, &log)
	}
}
