package observe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/plan"
)

func deviceClass(name string, expressions ...string) resourcev1.DeviceClass {
	return resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start)},
		Spec:       resourcev1.DeviceClassSpec{Selectors: cel(expressions...)},
	}
}

// nvidiaClasses are those that NVIDIA's DRA driver installs, and one of a network.
func nvidiaClasses() []resourcev1.DeviceClass {
	of := func(deviceType string) string {
		return "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '" + deviceType + "'"
	}
	whole := deviceClass("gpu.nvidia.com", of("gpu"))
	whole.Spec.ExtendedResourceName = ptr.To("nvidia.com/gpu")
	return []resourcev1.DeviceClass{
		whole, deviceClass("mig.nvidia.com", of("mig")), deviceClass("vfio.gpu.nvidia.com", of("vfio")),
		deviceClass("nic", "device.driver == 'dra.net'", "device.attributes['dra.net'].rdma == true"),
	}
}

type request = resourcev1.DeviceRequest

// exactly is a request; its name is the class's, unless renamed.
func exactly(name, class string, change ...func(*resourcev1.ExactDeviceRequest)) request {
	r := &resourcev1.ExactDeviceRequest{DeviceClassName: class}
	for _, c := range change {
		c(r)
	}
	return request{Name: name, Exactly: r}
}

func selecting(expressions ...string) func(*resourcev1.ExactDeviceRequest) {
	return func(r *resourcev1.ExactDeviceRequest) { r.Selectors = cel(expressions...) }
}

func ofProfile(name string) func(*resourcev1.ExactDeviceRequest) {
	return selecting("device.attributes['gpu.nvidia.com'].profile == '" + name + "'")
}

func counted(n int64) func(*resourcev1.ExactDeviceRequest) {
	return func(r *resourcev1.ExactDeviceRequest) { r.Count = n }
}

func allOfThem(r *resourcev1.ExactDeviceRequest) {
	r.AllocationMode = resourcev1.DeviceAllocationModeAll
}
func asAdmin(r *resourcev1.ExactDeviceRequest) { r.AdminAccess = ptr.To(true) }

func capacity(name resourcev1.QualifiedName, amount string) func(*resourcev1.ExactDeviceRequest) {
	return func(r *resourcev1.ExactDeviceRequest) {
		r.Capacity = &resourcev1.CapacityRequirements{
			Requests: map[resourcev1.QualifiedName]apiresource.Quantity{name: apiresource.MustParse(amount)}}
	}
}

func firstOf(name string, subs ...resourcev1.DeviceSubRequest) request {
	return request{Name: name, FirstAvailable: subs}
}

func alternative(name, class, profile string) resourcev1.DeviceSubRequest {
	return resourcev1.DeviceSubRequest{Name: name, DeviceClassName: class,
		Selectors: cel("device.attributes['gpu.nvidia.com'].profile == '" + profile + "'")}
}

func claim(name string, requests ...request) resourcev1.ResourceClaim {
	return resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}},
	}
}

func template(name string, requests ...request) resourcev1.ResourceClaimTemplate {
	return resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
		Spec:       resourcev1.ResourceClaimTemplateSpec{Spec: claim("", requests...).Spec},
	}
}

// claimant is a pod with containers and these claims: a name, or "template:" and
// the name of a template.
func claimant(name string, containers int, claims ...string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, CreationTimestamp: metav1.NewTime(start)}}
	for i := range containers {
		c := container("ctr", nil)
		for range claims {
			c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: "c" + string(rune('0'+i))})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	for i, c := range claims {
		rc := corev1.PodResourceClaim{Name: "c" + string(rune('0'+i))}
		if of, ok := strings.CutPrefix(c, "template:"); ok {
			rc.ResourceClaimTemplateName = &of
		} else {
			rc.ResourceClaimName = &c
		}
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, rc)
	}
	return p
}

// The demos of NVIDIA's DRA driver, and what each pod of them wants.
func TestClaimsOfTheDriversDemos(t *testing.T) {
	const a100 = "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$') && (device.attributes['gpu.nvidia.com'].index == 0 || device.attributes['gpu.nvidia.com'].index == 2)"
	single := template("single-gpu", exactly("gpu", "gpu.nvidia.com"))
	for _, c := range []struct {
		demo      string
		templates []resourcev1.ResourceClaimTemplate
		claims    []resourcev1.ResourceClaim
		pods      []corev1.Pod
		want      []string // by pod: the demand, or with ! a part of why not
	}{
		{
			"gpu-test1: two pods, one card each", []resourcev1.ResourceClaimTemplate{single}, nil,
			[]corev1.Pod{claimant("pod1", 1, "template:single-gpu"), claimant("pod2", 1, "template:single-gpu")}, []string{"1 card", "1 card"},
		},
		{
			"gpu-test2: two containers share one card", []resourcev1.ResourceClaimTemplate{single}, nil,
			[]corev1.Pod{claimant("pod", 2, "template:single-gpu")}, []string{"1 card"},
		},
		{
			"gpu-test3: two pods share one card", nil, []resourcev1.ResourceClaim{claim("single-gpu", exactly("gpu", "gpu.nvidia.com"))},
			[]corev1.Pod{claimant("pod1", 1, "single-gpu"), claimant("pod2", 1, "single-gpu")}, []string{"1 card", "none"},
		},
		{
			"gpu-test4: four instances of one card",
			[]resourcev1.ResourceClaimTemplate{template("mig-devices",
				exactly("mig-1g-5gb-0", "mig.nvidia.com", ofProfile("1g.5gb")), exactly("mig-1g-5gb-1", "mig.nvidia.com", ofProfile("1g.5gb")),
				exactly("mig-2g-10gb", "mig.nvidia.com", ofProfile("2g.10gb")), exactly("mig-3g-20gb", "mig.nvidia.com", ofProfile("3g.20gb")))},
			nil, []corev1.Pod{claimant("pod", 4, "template:mig-devices")}, []string{"1g.5gb×2, 2g.10gb×1, 3g.20gb×1"},
		},
		{
			"gpu-test5: one card by turns, one through MPS",
			[]resourcev1.ResourceClaimTemplate{template("multiple-gpus", exactly("ts-gpu", "gpu.nvidia.com"), exactly("mps-gpu", "gpu.nvidia.com"))},
			nil, []corev1.Pod{claimant("pod0", 4, "template:multiple-gpus")}, []string{"2 cards"},
		},
		{
			"gpu-test6: an A100 with an even index", []resourcev1.ResourceClaimTemplate{template("a100", exactly("gpu", "gpu.nvidia.com", selecting(a100)))},
			nil, []corev1.Pod{claimant("pod", 1, "template:a100")}, []string{"!says more than can be read here"},
		},
		{
			"gpu-test7: each container its own card", []resourcev1.ResourceClaimTemplate{single}, nil,
			[]corev1.Pod{claimant("gpu-pod", 2, "template:single-gpu", "template:single-gpu")}, []string{"2 cards"},
		},
		{
			"gpu-test-count: a container with two cards", []resourcev1.ResourceClaimTemplate{template("double-gpu", exactly("gpu", "gpu.nvidia.com", counted(2)))},
			nil, []corev1.Pod{claimant("gpu-pod", 1, "template:double-gpu")}, []string{"2 cards"},
		},
		{
			"consumable-shares: 4 GiB of a card", []resourcev1.ResourceClaimTemplate{template("gpu-4gi", exactly("gpu", "gpu.nvidia.com", capacity("memory", "4Gi")))},
			nil, []corev1.Pod{claimant("sharing", 1, "template:gpu-4gi")}, []string{"4096 MiB of a card"},
		},
	} {
		known := NewClaims(c.claims, c.templates, nvidiaClasses(), pointers(c.pods))
		for i := range c.pods {
			checkDemand(t, c.demo+", "+c.pods[i].Name, known.ConvertPod(&c.pods[i]), c.want[i])
		}
	}
}

func checkDemand(t *testing.T, what string, got plan.Pod, want string) {
	t.Helper()
	why, unreadable := strings.CutPrefix(want, "!")
	switch {
	case unreadable && (got.Unreadable == "" || !strings.Contains(got.Unreadable, why) || !got.Demand.Zero()):
		t.Errorf("%s: got %q, %s, want the reason %q", what, got.Unreadable, got.Demand, why)
	case !unreadable && (got.Unreadable != "" || got.Demand.String() != want):
		t.Errorf("%s: got %s, %q, want %s", what, got.Demand, got.Unreadable, want)
	}
}

func TestClaims(t *testing.T) {
	for what, c := range map[string]struct {
		requests []request
		want     string
	}{
		"admin access":             {[]request{exactly("gpu", "gpu.nvidia.com"), exactly("watch", "gpu.nvidia.com", asAdmin, allOfThem)}, "1 card"},
		"all":                      {[]request{exactly("gpu", "gpu.nvidia.com", allOfThem)}, "!request gpu: all devices of a node"},
		"any profile":              {[]request{exactly("mig", "mig.nvidia.com")}, "!request mig: MIG instances of any profile"},
		"several instances":        {[]request{exactly("mig", "mig.nvidia.com", ofProfile("1g.10gb"), counted(4))}, "1g.10gb×4"},
		"prioritized list":         {[]request{firstOf("mig", alternative("large", "mig.nvidia.com", "3g.40gb"), alternative("small", "mig.nvidia.com", "1g.10gb"))}, "3g.40gb×1"},
		"empty request":            {[]request{{Name: "gpu"}}, "!request gpu: it asks in a way that is not known here"},
		"unknown mode":             {[]request{exactly("gpu", "gpu.nvidia.com", func(r *resourcev1.ExactDeviceRequest) { r.AllocationMode = "Some" })}, `!allocation mode "Some"`},
		"negative":                 {[]request{exactly("gpu", "gpu.nvidia.com", counted(-1))}, "!-1 devices"},
		"a network card":           {[]request{exactly("nic", "nic", selecting("device.attributes['dra.net'].speed > 100"), allOfThem)}, "none"},
		"cards with a network":     {[]request{exactly("nic", "nic"), exactly("gpu", "gpu.nvidia.com")}, "1 card"},
		"passed through":           {[]request{exactly("gpu", "vfio.gpu.nvidia.com")}, `!type "vfio"`},
		"no such class":            {[]request{exactly("gpu", "gpu.example.com")}, "!there is no DeviceClass gpu.example.com"},
		"memory at least":          {[]request{exactly("gpu", "gpu.nvidia.com", selecting(`device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity("40Gi"))`))}, "!says more than can be read here"},
		"two profiles":             {[]request{exactly("mig", "mig.nvidia.com", ofProfile("1g.5gb"), selecting("device.attributes['gpu.nvidia.com'].profile in ['1g.5gb', '2g.10gb']"))}, "!says more than can be read here"},
		"contradiction":            {[]request{exactly("gpu", "gpu.nvidia.com", ofProfile("1g.5gb"))}, `!profile "1g.5gb" of a device of type "gpu"`},
		"an attribute of the bus":  {[]request{exactly("gpu", "gpu.nvidia.com", selecting("device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0'"))}, "!an attribute of resource.kubernetes.io"},
		"an architecture":          {[]request{exactly("gpu", "gpu.nvidia.com", selecting("device.attributes['gpu.nvidia.com'].architecture == 'Hopper'"))}, "!attribute architecture"},
		"shares":                   {[]request{exactly("gpu", "gpu.nvidia.com", capacity("shares", "1"))}, "!capacity shares"},
		"no memory":                {[]request{exactly("gpu", "gpu.nvidia.com", capacity("gpu.nvidia.com/memory", "0"))}, "!capacity gpu.nvidia.com/memory: 0"},
		"memory, by its full name": {[]request{exactly("gpu", "gpu.nvidia.com", capacity("gpu.nvidia.com/memory", "1000M"), counted(2))}, "954 MiB of each of 2 cards"},
		"nothing":                  {nil, "none"},
	} {
		pod := claimant("pod", 1, "template:t")
		known := NewClaims(nil, []resourcev1.ResourceClaimTemplate{template("t", c.requests...)}, nvidiaClasses(), []*corev1.Pod{&pod})
		checkDemand(t, what, known.ConvertPod(&pod), c.want)
	}
}

func TestClaimsThatAreNotThere(t *testing.T) {
	known := NewClaims(nil, nil, nvidiaClasses(), nil)
	for want, claims := range map[string]*Claims{
		"!resource claim c0: there is no ResourceClaim gone":          known,
		"!resource claim c0: the cluster's claims have not been read": nil,
	} {
		pod := claimant("pod", 1, "gone")
		checkDemand(t, "a claim", claims.ConvertPod(&pod), want)
	}
	pod := claimant("pod", 1, "template:gone")
	checkDemand(t, "a template", known.ConvertPod(&pod), "!there is no ResourceClaimTemplate gone")
	pod.Spec.ResourceClaims[0].ResourceClaimTemplateName = nil
	checkDemand(t, "neither", known.ConvertPod(&pod), "!neither a claim nor a template")
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c0"}}
	checkDemand(t, "no claim needed", (*Claims)(nil).ConvertPod(&pod), "none")
}

// What has been allocated is what is wanted: the alternative that was taken, the
// devices that "all" turned out to be, and whichever the selectors chose.
func TestAllocatedClaims(t *testing.T) {
	results := func(requests ...string) *resourcev1.AllocationResult {
		a := &resourcev1.AllocationResult{}
		for _, r := range requests {
			a.Devices.Results = append(a.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: r, Driver: "gpu.nvidia.com"})
		}
		return a
	}
	oneOfTwo := firstOf("mig", alternative("large", "mig.nvidia.com", "3g.40gb"), alternative("small", "mig.nvidia.com", "1g.10gb"))
	odd := selecting("device.attributes['gpu.nvidia.com'].index == 1")
	for _, c := range []struct {
		request    request
		allocation *resourcev1.AllocationResult
		want       string
	}{
		{oneOfTwo, results("mig/small"), "1g.10gb×1"},
		{oneOfTwo, results("mig/large"), "3g.40gb×1"},
		{exactly("gpu", "gpu.nvidia.com", allOfThem), results("gpu", "gpu", "gpu", "other"), "3 cards"},
		{exactly("gpu", "gpu.nvidia.com", odd), results("gpu"), "1 card"},
		{exactly("gpu", "gpu.nvidia.com", odd), nil, "!says more"},
		{exactly("mig", "mig.nvidia.com", odd), results("mig"), "!says more"}, // of which profile?
	} {
		made := claim("pod-c0-x7k2p", c.request)
		made.Status.Allocation = c.allocation
		pod := claimant("pod", 1, "template:t")
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c0", ResourceClaimName: &made.Name}}
		known := NewClaims([]resourcev1.ResourceClaim{made}, nil, nvidiaClasses(), []*corev1.Pod{&pod})
		checkDemand(t, c.want, known.ConvertPod(&pod), c.want)
	}
}

// A claim that pods share is counted once: for the one that has it, else the oldest.
func TestSharedClaimIsCountedOnce(t *testing.T) {
	shared := claim("shared", exactly("gpu", "gpu.nvidia.com"))
	pods := []corev1.Pod{claimant("b", 1, "shared"), claimant("c", 1, "shared"), claimant("a", 1, "shared")}
	pods[1].CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
	cards := func() string {
		known := NewClaims([]resourcev1.ResourceClaim{shared}, nil, nvidiaClasses(), pointers(pods))
		out := ""
		for i := range pods {
			if known.ConvertPod(&pods[i]).Demand.Cards == 1 {
				out += pods[i].Name
			}
		}
		return out
	}
	if got := cards(); got != "c" {
		t.Errorf("counted for %q, want the oldest, c", got)
	}
	shared.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "b"}, {Resource: "pods", Name: "a"}}
	if got := cards(); got != "a" { // as old as b, and before it by name
		t.Errorf("counted for %q, want one that has it, a", got)
	}
	pods[2].Status.Phase = corev1.PodSucceeded
	if got := cards(); got != "b" {
		t.Errorf("counted for %q, want b: a is over", got)
	}
}

func TestProductOfAClaimIsWhereThePodMayGo(t *testing.T) {
	known := NewClaims(nil, []resourcev1.ResourceClaimTemplate{template("t", exactly("gpu", "gpu.nvidia.com",
		selecting("device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'")))}, nvidiaClasses(), nil)
	pod := claimant("pod", 1, "template:t")
	got := known.ConvertPod(&pod)
	if got.Demand.String() != "1 card" || len(got.Affinity) != 1 || len(got.Affinity[0]) != 1 {
		t.Fatalf("%s, %v", got.Demand, got.Affinity)
	}
	is := got.Affinity[0][0]
	if is.Key != "nvidia.com/gpu.product" || is.Operator != "In" || strings.Join(is.Values, " ") != "NVIDIA-H100-80GB-HBM3 NVIDIA-H100-80GB-HBM3-SHARED H100-80GB" {
		t.Errorf("%v", is)
	}
	// Beside what the pod says itself: in each of its alternatives.
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"a"}}}},
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "In", Values: []string{"b"}}}},
		}}}}
	got = known.ConvertPod(&pod)
	if len(got.Affinity) != 2 || len(got.Affinity[0]) != 2 || len(got.Affinity[1]) != 2 || got.Affinity[1][0].Key != "zone" || got.Affinity[1][1].Key != is.Key {
		t.Errorf("%v", got.Affinity)
	}
}

// Extended resources that a device class serves (the driver's demo
// extended-resources): what they are is the class's to say.
func TestExtendedResourcesOfDeviceClasses(t *testing.T) {
	ask := func(amounts map[corev1.ResourceName]int64) corev1.Pod {
		return corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("c", amounts)}}}
	}
	small := deviceClass("mig-1g-12gb.gpu.nvidia.com", "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig' && device.attributes['gpu.nvidia.com'].profile == '1g.12gb'")
	small.Spec.ExtendedResourceName = ptr.To("nvidia.com/gpu")
	small.CreationTimestamp = metav1.NewTime(start.Add(time.Hour))
	named := deviceClass("mig-by-name", small.Spec.Selectors[0].CEL.Expression)
	named.Spec.ExtendedResourceName = ptr.To("example.com/slice")
	unclear := deviceClass("unclear", "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].index == 1")
	whole := NewClaims(nil, nil, append(nvidiaClasses(), named, unclear), nil)
	cut := NewClaims(nil, nil, append(nvidiaClasses(), small), nil)
	for _, c := range []struct {
		what    string
		claims  *Claims
		amounts map[corev1.ResourceName]int64
		want    string
	}{
		{"gpu-full", whole, map[corev1.ResourceName]int64{"nvidia.com/gpu": 2}, "2 cards"},
		{"mig-1g-12gb", cut, map[corev1.ResourceName]int64{"nvidia.com/gpu": 1}, "1g.12gb×1"}, // the later class
		{"no classes", nil, map[corev1.ResourceName]int64{"nvidia.com/gpu": 1}, "1 card"},
		{"HAMi beside a class of whole cards", whole, map[corev1.ResourceName]int64{"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}, "3000 MiB of a card"},
		{"a name of its own", whole, map[corev1.ResourceName]int64{"example.com/slice": 3}, "1g.12gb×3"},
		{"by the class", whole, map[corev1.ResourceName]int64{"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2}, "2 cards"},
		{"by a class of a network", whole, map[corev1.ResourceName]int64{"deviceclass.resource.kubernetes.io/nic": 2}, "none"},
		{"by a class that is not there", whole, map[corev1.ResourceName]int64{"deviceclass.resource.kubernetes.io/x": 1}, "!there is no such DeviceClass"},
		{"by a class that cannot be read", whole, map[corev1.ResourceName]int64{"deviceclass.resource.kubernetes.io/unclear": 1}, "!says more"},
	} {
		pod := ask(c.amounts)
		checkDemand(t, c.what, c.claims.ConvertPod(&pod), c.want)
	}
}

func TestReadClaims(t *testing.T) {
	class, tmpl, made := nvidiaClasses()[0], template("t", exactly("gpu", "gpu.nvidia.com")), claim("made", exactly("gpu", "gpu.nvidia.com", counted(2)))
	w := newWorld(t, &class, &tmpl, &made)
	pods := []corev1.Pod{claimant("a", 1, "template:t"), claimant("b", 1, "made")}
	known, err := ReadClaims(t.Context(), w.client, pointers(pods))
	if err != nil {
		t.Fatal(err)
	}
	checkDemand(t, "a", known.ConvertPod(&pods[0]), "1 card")
	checkDemand(t, "b", known.ConvertPod(&pods[1]), "2 cards")

	if known, err := ReadClaims(t.Context(), failing{&meta.NoKindMatchError{}}, pointers(pods)); err != nil || known == nil {
		t.Errorf("a cluster without resource claims: %v", err)
	}
	if _, err := ReadClaims(t.Context(), failing{errors.New("away")}, pointers(pods)); err == nil {
		t.Error("claims that could not be read are none")
	}
}

// failing is a cluster that answers every question with an error.
type failing struct{ err error }

func (f failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return f.err
}
func (f failing) List(context.Context, client.ObjectList, ...client.ListOption) error { return f.err }

func pointers(pods []corev1.Pod) []*corev1.Pod {
	out := make([]*corev1.Pod, len(pods))
	for i := range pods {
		out[i] = &pods[i]
	}
	return out
}
