package observe

import (
	"context"
	"errors"
	"reflect"
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

// nvidiaClasses are the classes of NVIDIA's DRA driver, and one of a network driver.
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

// exactly is a request with the class's name, unless renamed.
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

// claimant is a pod with containers and these claims: a name, or "template:" and the name of a
// template.
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

// TestClaims reads requests as the API allows them, among them those of the demos of NVIDIA's DRA
// driver.
func TestClaims(t *testing.T) {
	const a100 = "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$') && (device.attributes['gpu.nvidia.com'].index == 0 || device.attributes['gpu.nvidia.com'].index == 2)"
	for what, c := range map[string]struct {
		requests []request
		want     string
	}{
		"admin access":             {[]request{exactly("gpu", "gpu.nvidia.com"), exactly("watch", "gpu.nvidia.com", asAdmin, allOfThem)}, "1 GPU"},
		"all":                      {[]request{exactly("gpu", "gpu.nvidia.com", allOfThem)}, "!request gpu: all devices of a node"},
		"any profile":              {[]request{exactly("mig", "mig.nvidia.com")}, "!request mig: MIG instances of any profile"},
		"several instances":        {[]request{exactly("mig", "mig.nvidia.com", ofProfile("1g.10gb"), counted(4))}, "1g.10gb×4"},
		"prioritized list":         {[]request{firstOf("mig", alternative("large", "mig.nvidia.com", "3g.40gb"), alternative("small", "mig.nvidia.com", "1g.10gb"))}, "3g.40gb×1"},
		"empty request":            {[]request{{Name: "gpu"}}, "!request gpu: unsupported kind of request"},
		"unknown mode":             {[]request{exactly("gpu", "gpu.nvidia.com", func(r *resourcev1.ExactDeviceRequest) { r.AllocationMode = "Some" })}, `!allocation mode "Some"`},
		"negative":                 {[]request{exactly("gpu", "gpu.nvidia.com", counted(-1))}, "!-1 devices"},
		"a network device":         {[]request{exactly("nic", "nic", selecting("device.attributes['dra.net'].speed > 100"), allOfThem)}, "none"},
		"GPUs with a network":      {[]request{exactly("nic", "nic"), exactly("gpu", "gpu.nvidia.com")}, "1 GPU"},
		"passed through":           {[]request{exactly("gpu", "vfio.gpu.nvidia.com")}, `!type "vfio"`},
		"no such class":            {[]request{exactly("gpu", "gpu.example.com")}, "!there is no DeviceClass gpu.example.com"},
		"memory at least":          {[]request{exactly("gpu", "gpu.nvidia.com", selecting(`device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity("40Gi"))`))}, "!is not supported"},
		"two profiles":             {[]request{exactly("mig", "mig.nvidia.com", ofProfile("1g.5gb"), selecting("device.attributes['gpu.nvidia.com'].profile in ['1g.5gb', '2g.10gb']"))}, "!is not supported"},
		"contradiction":            {[]request{exactly("gpu", "gpu.nvidia.com", ofProfile("1g.5gb"))}, `!profile "1g.5gb" of a device of type "gpu"`},
		"an attribute of the bus":  {[]request{exactly("gpu", "gpu.nvidia.com", selecting("device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0'"))}, "!an attribute of resource.kubernetes.io"},
		"an architecture":          {[]request{exactly("gpu", "gpu.nvidia.com", selecting("device.attributes['gpu.nvidia.com'].architecture == 'Hopper'"))}, "!attribute architecture"},
		"shares":                   {[]request{exactly("gpu", "gpu.nvidia.com", capacity("shares", "1"))}, "!capacity shares"},
		"no memory":                {[]request{exactly("gpu", "gpu.nvidia.com", capacity("gpu.nvidia.com/memory", "0"))}, "!capacity gpu.nvidia.com/memory: 0"},
		"memory, by its full name": {[]request{exactly("gpu", "gpu.nvidia.com", capacity("gpu.nvidia.com/memory", "1000M"), counted(2))}, "954 MiB of each of 2 GPUs"},
		"nothing":                  {nil, "none"},
		"gpu-test4: four instances of one GPU": {[]request{exactly("a", "mig.nvidia.com", ofProfile("1g.5gb")), exactly("b", "mig.nvidia.com", ofProfile("1g.5gb")),
			exactly("c", "mig.nvidia.com", ofProfile("2g.10gb")), exactly("d", "mig.nvidia.com", ofProfile("3g.20gb"))}, "1g.5gb×2, 2g.10gb×1, 3g.20gb×1"},
		"gpu-test5: one GPU by turns, one through MPS": {[]request{exactly("ts-gpu", "gpu.nvidia.com"), exactly("mps-gpu", "gpu.nvidia.com")}, "2 GPUs"},
		"gpu-test6: an A100 with an even index":        {[]request{exactly("gpu", "gpu.nvidia.com", selecting(a100))}, "!is not supported"},
		"consumable-shares: 4 GiB of a GPU":            {[]request{exactly("gpu", "gpu.nvidia.com", capacity("memory", "4Gi"))}, "4096 MiB of a GPU"},
	} {
		pod := claimant("pod", 1, "template:t")
		known := NewClaims(nil, []resourcev1.ResourceClaimTemplate{template("t", c.requests...)}, nvidiaClasses(), []*corev1.Pod{&pod})
		checkDemand(t, what, known.ConvertPod(&pod), c.want)
	}
}

// TestClaimsOfContainers: a claim of a template belongs to the pod, however many containers use it.
func TestClaimsOfContainers(t *testing.T) {
	known := NewClaims(nil, []resourcev1.ResourceClaimTemplate{template("t", exactly("gpu", "gpu.nvidia.com"))}, nvidiaClasses(), nil)
	shared, each := claimant("shared", 2, "template:t"), claimant("each", 2, "template:t", "template:t")
	checkDemand(t, "gpu-test2: two containers share one GPU", known.ConvertPod(&shared), "1 GPU")
	checkDemand(t, "gpu-test7: each container its own GPU", known.ConvertPod(&each), "2 GPUs")
}

func TestMissingClaims(t *testing.T) {
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

// TestAllocatedClaims: the allocation is the demand: the chosen alternative, the number of devices
// of "all", and the devices that selectors chose.
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
		{exactly("gpu", "gpu.nvidia.com", allOfThem), results("gpu", "gpu", "gpu", "other"), "3 GPUs"},
		{exactly("gpu", "gpu.nvidia.com", odd), results("gpu"), "1 GPU"},
		{exactly("gpu", "gpu.nvidia.com", odd), nil, "!is not supported"},
		{exactly("mig", "mig.nvidia.com", odd), results("mig"), "!is not supported"}, // of which profile?
	} {
		made := claim("pod-c0-x7k2p", c.request)
		made.Status.Allocation = c.allocation
		pod := claimant("pod", 1, "template:t")
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c0", ResourceClaimName: &made.Name}}
		known := NewClaims([]resourcev1.ResourceClaim{made}, nil, nvidiaClasses(), []*corev1.Pod{&pod})
		checkDemand(t, c.want, known.ConvertPod(&pod), c.want)
	}
}

// TestSharedClaimIsCountedOnce: a claim that pods share counts once: for a pod that it is reserved
// for, else for the oldest.
func TestSharedClaimIsCountedOnce(t *testing.T) {
	shared := claim("shared", exactly("gpu", "gpu.nvidia.com"))
	pods := []corev1.Pod{claimant("b", 1, "shared"), claimant("c", 1, "shared"), claimant("a", 1, "shared")}
	pods[1].CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
	gpus := func() string {
		known := NewClaims([]resourcev1.ResourceClaim{shared}, nil, nvidiaClasses(), pointers(pods))
		out := ""
		for i := range pods {
			if known.ConvertPod(&pods[i]).Demand.GPUs == 1 {
				out += pods[i].Name
			}
		}
		return out
	}
	if got := gpus(); got != "c" {
		t.Errorf("counted for %q, want the oldest, c", got)
	}
	shared.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "b"}, {Resource: "pods", Name: "a"}}
	if got := gpus(); got != "a" { // as old as b, and before it by name
		t.Errorf("counted for %q, want one that has it, a", got)
	}
	pods[2].Status.Phase = corev1.PodSucceeded
	if got := gpus(); got != "b" {
		t.Errorf("counted for %q, want b: a is over", got)
	}
}

func TestProductOfAClaimIsAffinity(t *testing.T) {
	known := NewClaims(nil, []resourcev1.ResourceClaimTemplate{template("t", exactly("gpu", "gpu.nvidia.com",
		selecting("device.attributes['gpu.nvidia.com'].productName == 'NVIDIA H100 80GB HBM3'")))}, nvidiaClasses(), nil)
	pod := claimant("pod", 1, "template:t")
	got := known.ConvertPod(&pod)
	if got.Demand.String() != "1 GPU" || len(got.Affinity) != 1 || len(got.Affinity[0]) != 1 {
		t.Fatalf("%s, %v", got.Demand, got.Affinity)
	}
	is := got.Affinity[0][0]
	if is.Key != "nvidia.com/gpu.product" || is.Operator != "In" || strings.Join(is.Values, " ") != "NVIDIA-H100-80GB-HBM3 NVIDIA-H100-80GB-HBM3-SHARED H100-80GB" {
		t.Errorf("%v", is)
	}
	// In addition to the pod's own terms: in each alternative.
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

// TestExtendedResourcesOfDeviceClasses: the class defines the devices of an extended resource that
// it serves (the driver's demo extended-resources).
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
	repartition := NewClaims(nil, nil, append(nvidiaClasses(), small), nil)
	for _, c := range []struct {
		what    string
		claims  *Claims
		amounts map[corev1.ResourceName]int64
		want    string
	}{
		{"gpu-full", whole, map[corev1.ResourceName]int64{"nvidia.com/gpu": 2}, "2 GPUs"},
		{"mig-1g-12gb", repartition, map[corev1.ResourceName]int64{"nvidia.com/gpu": 1}, "1g.12gb×1"}, // the later class
		{"no classes", nil, map[corev1.ResourceName]int64{"nvidia.com/gpu": 1}, "1 GPU"},
		{"HAMi beside a class of whole GPUs", whole, map[corev1.ResourceName]int64{"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}, "3000 MiB of a GPU"},
		{"a name of its own", whole, map[corev1.ResourceName]int64{"example.com/slice": 3}, "1g.12gb×3"},
		{"by the class", whole, map[corev1.ResourceName]int64{"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2}, "2 GPUs"},
		{"by a class of a network", whole, map[corev1.ResourceName]int64{"deviceclass.resource.kubernetes.io/nic": 2}, "none"},
		{"by a class that is not there", whole, map[corev1.ResourceName]int64{"deviceclass.resource.kubernetes.io/x": 1}, "!there is no such DeviceClass"},
		{"by a class that cannot be read", whole, map[corev1.ResourceName]int64{"deviceclass.resource.kubernetes.io/unclear": 1}, "!is not supported"},
	} {
		pod := ask(c.amounts)
		checkDemand(t, c.what, c.claims.ConvertPod(&pod), c.want)
	}
}

// TestOptionalKinds: a cluster whose API has no resource claims has none; one that does not list them is
// not observed.
func TestOptionalKinds(t *testing.T) {
	class, tmpl, made := nvidiaClasses()[0], template("t", exactly("gpu", "gpu.nvidia.com")), claim("made", exactly("gpu", "gpu.nvidia.com", counted(2)))
	w := newWorld(t, &class, &tmpl, &made)
	c, err := w.o.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for pod, want := range map[string]string{"template:t": "1 GPU", "made": "2 GPUs"} {
		p := claimant("a", 1, pod)
		checkDemand(t, pod, c.claims.ConvertPod(&p), want)
	}
	for _, c := range []struct {
		err error
		ok  bool
	}{{&meta.NoKindMatchError{}, true}, {errors.New("away"), false}} {
		w.o.o.Cluster = without{w.client, c.err}
		if _, err := w.o.read(t.Context()); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// without is a cluster that does not list device classes.
type without struct {
	client.Reader
	err error
}

func (w without) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if _, ok := list.(*resourcev1.DeviceClassList); ok {
		return w.err
	}
	return w.Reader.List(ctx, list, o...)
}

func pointers(pods []corev1.Pod) []*corev1.Pod {
	out := make([]*corev1.Pod, len(pods))
	for i := range pods {
		out[i] = &pods[i]
	}
	return out
}

func cel(expressions ...string) []resourcev1.DeviceSelector {
	var out []resourcev1.DeviceSelector
	for _, e := range expressions {
		out = append(out, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return out
}

func TestReadSelectors(t *testing.T) {
	for _, c := range []struct {
		expression string
		driver     string
		attributes map[string]string // of gpu.nvidia.com
	}{
		// As in the DRA driver's device classes and demos.
		{"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'", "gpu.nvidia.com", map[string]string{"type": "gpu"}},
		{"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig' && device.attributes['gpu.nvidia.com'].profile == '1g.12gb'",
			"gpu.nvidia.com", map[string]string{"type": "mig", "profile": "1g.12gb"}},
		{"device.attributes['gpu.nvidia.com'].profile == '3g.40gb'", "", map[string]string{"profile": "3g.40gb"}},
		{"device.attributes['gpu.nvidia.com'].productName == 'NVIDIA A100-SXM4-80GB'", "", map[string]string{"productName": "NVIDIA A100-SXM4-80GB"}},
		// Equivalent forms.
		{`device.attributes["gpu.nvidia.com"].profile == "1g.10gb+me"`, "", map[string]string{"profile": "1g.10gb+me"}},
		{`device.attributes["gpu.nvidia.com"]["profile"] == "3g.40gb"`, "", map[string]string{"profile": "3g.40gb"}},
		{"'gpu.nvidia.com' == device.driver", "gpu.nvidia.com", nil},
		{"'mig'==device.attributes['gpu.nvidia.com'].type", "", map[string]string{"type": "mig"}},
		{"device.attributes['gpu.nvidia.com'].profile in ['3g.40gb']", "", map[string]string{"profile": "3g.40gb"}},
		{"(device.driver == 'gpu.nvidia.com')\n  &&\n((device.attributes['gpu.nvidia.com'].type == 'mig') && device.attributes['gpu.nvidia.com'].profile == '7g.80gb')",
			"gpu.nvidia.com", map[string]string{"type": "mig", "profile": "7g.80gb"}},
		{"device.attributes['gpu.nvidia.com'].type == 'gpu' && device.attributes['gpu.nvidia.com'].type == 'gpu'", "", map[string]string{"type": "gpu"}},
		{"device.attributes['gpu.nvidia.com'].productName == 'a && b || (c'", "", map[string]string{"productName": "a && b || (c"}},
	} {
		s := readSelectors(cel(c.expression))
		if s.unread != nil || s.driver != c.driver || !reflect.DeepEqual(s.attributes["gpu.nvidia.com"], c.attributes) {
			t.Errorf("%s: got %+v", c.expression, s)
		}
	}
}

func TestUnsupportedSelectors(t *testing.T) {
	for _, expression := range []string{
		"device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$')",
		"device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*a100.*$')\n&&\n(device.attributes['gpu.nvidia.com'].index == 0 ||\ndevice.attributes['gpu.nvidia.com'].index == 2)",
		"device.attributes['gpu.nvidia.com'].profile == '4g.40gb' || device.attributes['gpu.nvidia.com'].profile == '3g.40gb'",
		"device.driver == 'gpu.nvidia.com' || device.attributes['gpu.nvidia.com'].type == 'gpu' && device.attributes['gpu.nvidia.com'].profile == '3g.40gb'",
		"device.attributes['gpu.nvidia.com'].profile in ['4g.40gb', '3g.40gb']",
		"device.attributes['gpu.nvidia.com'].profile != '3g.40gb'",
		"!(device.attributes['gpu.nvidia.com'].profile == '3g.40gb')",
		"device.attributes['gpu.nvidia.com'].profile == '3g.40gb' ? true : false",
		"device.attributes['gpu.nvidia.com'].profile == r'3g.40gb'",
		`device.attributes['gpu.nvidia.com'].profile == '3g.40gb\x2b'`,
		"device.attributes['gpu.nvidia.com'].type == 'gpu' && device.attributes['gpu.nvidia.com'].type == 'mig'",
		"device.driver == 'a' && device.driver == 'b'",
		"device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity(\"40Gi\"))",
		"device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
		"device.attributes['gpu.nvidia.com'].index == 0",
		"'a' == 'a'",
		"device.driver",
		"device.driver == ",
		"device.driver == ''",
		"'unterminated",
		"true",
		"",
	} {
		if s := readSelectors(cel(expression)); s.unread == nil || !strings.Contains(s.unread.Error(), "is not supported") {
			t.Errorf("%q: got %+v", expression, s)
		}
	}
	if s := readSelectors([]resourcev1.DeviceSelector{{}}); s.unread == nil {
		t.Error("a selector in another language was read")
	}
	// The supported terms beside it are read all the same.
	s := readSelectors(cel("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'", "device.attributes['gpu.nvidia.com'].index == 0"))
	if s.unread == nil || s.driver != "gpu.nvidia.com" || s.attributes["gpu.nvidia.com"]["type"] != "gpu" {
		t.Errorf("got %+v", s)
	}
}

// TestAlternativesAreUncertain: a driver that is only one of two alternatives must not hide an
// accelerator.
func TestAlternativesAreUncertain(t *testing.T) {
	const gpu, nic, rdma = "device.driver == 'gpu.nvidia.com'", "device.driver == 'dra.net'", "device.attributes['dra.net'].rdma == 'yes'"
	for _, expression := range []string{
		gpu + " || " + rdma + " && " + nic,
		nic + " && " + rdma + " || " + gpu,
		nic + " && " + rdma + " ? true : false",
		rdma + " ? true : " + rdma + " && " + nic,
		"[" + rdma + " && " + nic + "].all(x, x)",
		"{'a': " + rdma + " && " + nic + " && " + rdma + "}.a",
		"!(" + rdma + " && " + nic + ")",
		"(" + gpu + " || " + nic + ")",
	} {
		if s := readSelectors(cel(expression)); s.unread == nil || s.driver != "" || len(s.attributes) > 0 {
			t.Errorf("%s: got %+v", expression, s)
		}
	}
}

// FuzzSelectors: an expression has the same meaning in brackets and joined with itself by &&; one
// of two alternatives is never certain.
func FuzzSelectors(f *testing.F) {
	f.Add("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'")
	f.Add("device.attributes[\"a\"][\"b\"] == \"c\"")
	f.Add("(device.driver == 'x') && 'y' in ['z']")
	f.Add("'a' == device.driver || ((")
	f.Add("device.attributes['\xff'].x == '\n'")
	f.Fuzz(func(t *testing.T, expression string) {
		s := readSelectors(cel(expression))
		if s.unread != nil {
			return
		}
		same := "device.driver == 'same'"
		for _, other := range []string{"(" + expression + ")", "(" + expression + ") && (" + expression + ")"} {
			if again := readSelectors(cel(other)); !reflect.DeepEqual(again, s) {
				t.Fatalf("%q gives %+v, and %q gives %+v", expression, s, other, again)
			}
		}
		if either := readSelectors(cel("(" + expression + ") || " + same)); either.unread == nil || either.driver != "" || len(either.attributes) > 0 {
			t.Fatalf("one of two is taken for certain: %+v", either)
		}
		if s.driver == "" && len(s.attributes) == 0 {
			t.Fatalf("%q is read without a result", expression)
		}
	})
}
