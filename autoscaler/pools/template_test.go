package pools

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/plan"
)

func namedPool(name string, age time.Duration, p v1alpha1.Provider) v1alpha1.GPUNodePool {
	pool := testPool()
	pool.Name, pool.CreationTimestamp, pool.Spec.Provider = name, metav1.NewTime(testNow.Add(-age)), p
	return *pool
}

func TestOlderPoolKeepsItsTarget(t *testing.T) {
	beta := deploymentRef
	beta.APIVersion = capiGroup + "/v1beta1" // the same object
	group := v1alpha1.Provider{ASG: &v1alpha1.ASGProvider{Name: "g", Region: "eu-west-1"}}
	elsewhere := v1alpha1.Provider{ASG: &v1alpha1.ASGProvider{Name: "g", Region: "eu-west-2"}}
	all := []v1alpha1.GPUNodePool{
		namedPool("young", time.Hour, v1alpha1.Provider{Scale: &deploymentRef}),
		namedPool("old", 2*time.Hour, v1alpha1.Provider{Scale: &beta}),
		namedPool("b", time.Hour, group), namedPool("a", time.Hour, group), namedPool("c", time.Hour, elsewhere),
		namedPool("rack-1", 0, v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}), namedPool("rack-2", 0, v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}),
	}
	got := Conflicts(all, nil)
	for name, want := range map[string]string{"young": "pool old", "b": "pool a"} {
		p := (*Problem)(nil)
		if !errors.As(got[name], &p) || p.Reason != ReasonShared || !strings.Contains(p.What, want) {
			t.Errorf("%s: %v", name, got[name])
		}
	}
	if len(got) != 2 {
		t.Errorf("%v", got)
	}
}

func TestNodesOfKarpenter(t *testing.T) {
	node := func(pool, nodePool string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-" + pool, Labels: map[string]string{
			v1alpha1.NodePoolLabel: pool, labelKarpenterFor: nodePool,
		}}}
	}
	all := []v1alpha1.GPUNodePool{
		namedPool("static", 0, v1alpha1.Provider{Scale: &nodePoolRef}),
		namedPool("other", 0, v1alpha1.Provider{Scale: &deploymentRef}),
		namedPool("fixed", 0, v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}),
	}
	got := Conflicts(all, []corev1.Node{node("static", "h100"), node("other", "h100"), node("fixed", "h100"), node("none", "h100"), {}})
	if len(got) != 2 || ReasonOf(got["fixed"]) != ReasonForeign || ReasonOf(got["other"]) != ReasonForeign || !strings.Contains(got["other"].Error(), "n-other") {
		t.Errorf("%v", got)
	}
	got = Conflicts(all, []corev1.Node{node("static", "another")})
	if ReasonOf(got["static"]) != ReasonForeign {
		t.Errorf("%v", got)
	}
}

func testPool() *v1alpha1.GPUNodePool {
	return &v1alpha1.GPUNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: v1alpha1.GPUNodePoolSpec{
			Max:      5,
			Provider: v1alpha1.Provider{Scale: &deploymentRef},
			Template: v1alpha1.NodeTemplate{
				Product: "NVIDIA-H100-80GB-HBM3", GPUs: 2, Labels: map[string]string{"zone": "a"},
				Taints: []v1alpha1.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}},
				CPU:    resource.MustParse("64"), Memory: resource.MustParse("512Gi"),
			},
			MIG: &v1alpha1.MIG{BootLayout: []map[string]int32{{"3g.40gb": 1, "1g.10gb": 3}, {}}},
		},
	}
}

func TestTemplateErrorsNameTheField(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.GPUNodePool){
		"spec.template.product":  func(p *v1alpha1.GPUNodePool) { p.Spec.Template.Product = "toaster" },
		"1 or 2":                 func(p *v1alpha1.GPUNodePool) { p.Spec.MIG.BootLayout = make([]map[string]int32, 3) },
		"spec.mig.bootLayout[1]": func(p *v1alpha1.GPUNodePool) { p.Spec.MIG.BootLayout[1] = map[string]int32{"9g.90gb": 1} },
		"spec.template.memory":   func(p *v1alpha1.GPUNodePool) { p.Spec.Template.Memory = resource.MustParse("70017000000000000000000") },
		"spec.template.cpu":      func(p *v1alpha1.GPUNodePool) { p.Spec.Template.CPU = resource.MustParse("-1") },
		"spec.template.sharing":  func(p *v1alpha1.GPUNodePool) { p.Spec.Template.Sharing = &v1alpha1.GPUSharing{Replicas: 2} },
		"has no MIG":             func(p *v1alpha1.GPUNodePool) { p.Spec.Template.Product = "NVIDIA-L40S" },
	} {
		pool := testPool()
		change(pool)
		if _, err := templateOf(pool, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q in it", err, want)
		}
	}
	pool := testPool()
	pool.Spec.Provider = v1alpha1.Provider{}
	if _, err := (Providers{}).List(t.Context(), pool); !errors.Is(err, ErrNoProvider) {
		t.Errorf("err = %v", err)
	}
}

func labelled(name, pool string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.NodePoolLabel: pool}}}
}

// TestFixed: the nodes with the label are the pool; no call changes the nodes or counts as a
// failure.
func TestFixed(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(labelled("a", "p"), labelled("b", "p"), labelled("c", "q")).Build()
	pool := testPool()
	pool.Spec.Provider = v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}
	h := NewHistory(time.Now)
	p := Providers{Fixed: NewFixed(c), History: h}
	if l, err := p.List(t.Context(), pool); err != nil || l.Target != 2 || l.Unnamed || len(l.Going) > 0 {
		t.Errorf("listing %+v, %v", l, err)
	}
	node := labelled("a", "p")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"growing": p.SetSize(t.Context(), pool, 3), "as it is": p.SetSize(t.Context(), pool, 2),
		"removing": p.Delete(t.Context(), pool, node),
	} {
		if !errors.Is(err, ErrFixed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.Replace(t.Context(), pool, node); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("replacing: %v", err)
	}
	if l, err := p.List(t.Context(), pool); err != nil || l.Target != 2 {
		t.Errorf("afterwards: %+v, %v", l, err)
	}
	if l := h.Seen(pool, 2, nil); l.Failures != 0 {
		t.Errorf("%d failures of a provider that is asked for nothing", l.Failures)
	}
}

// TestFixedPoolHasNoHistory: the values in its status are from a former provider.
func TestFixedPoolHasNoHistory(t *testing.T) {
	pool := testPool()
	pool.Status.Backoff = &v1alpha1.Backoff{Failures: 3, UntilTime: metav1.NewTime(time.Now().Add(time.Hour))}
	p := Providers{History: NewHistory(time.Now)}
	if l := p.Learn(pool, 1, nil); l.Failures != 3 {
		t.Fatalf("a pool that is made: %+v", l)
	}
	pool.Spec.Provider = v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}
	if l := p.Learn(pool, 1, nil); l != (Learned{}) {
		t.Errorf("%+v", l)
	}
}

func TestInstanceID(t *testing.T) {
	for id, want := range map[string]string{
		"aws:///eu-west-1a/i-0123456789abcdef0": "i-0123456789abcdef0", "aws:///us-east-1-atl-1a/i-01234567": "i-01234567",
		"": "", "i-0123456789abcdef0": "", "aws:///eu-west-1a/": "", "aws:///a/i-01234567/": "", "gce://p/z/i-01234567": "",
		"aws:///a/i-0123456Z": "", "aws:///a/i-": "", "aws:///a/i-01234567&b=c": "", "aws:///a/i-0123456789abcdef01": "",
	} {
		if got, err := instanceID(id); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", id, got, err)
		}
	}
}

func FuzzNotice(f *testing.F) {
	f.Add([]byte(event("EC2 Spot Instance Interruption Warning", "i-0123456789abcdef1", testNow)))
	f.Add([]byte(`{"time":"0001-01-01T00:00:00Z","detail":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := parseNotice(body)
		if err == nil && (!isInstanceID(l.Instance) || l.At.IsZero() || l.Kind != Interruption && l.Kind != Rebalance) {
			t.Errorf("%q: %+v", body, l)
		}
	})
}

func FuzzTags(f *testing.F) {
	f.Add("label/zone", "a")
	f.Add("taint/dedicated", "ml:NoSchedule")
	f.Add("resources/rdma/hca", "8")
	f.Add("resources/nvidia.com/gpu", "1e99")
	f.Fuzz(func(t *testing.T, key, value string) {
		n, err := readTags([]types.TagDescription{{Key: aws.String(templateTag + key), Value: aws.String(value)}})
		if err != nil {
			if !strings.Contains(err.Error(), key) {
				t.Errorf("%q: %v names no tag", key, err)
			}
			return
		}
		p := plan.Template{Labels: map[string]string{}}
		n.addTo(&p)
		for _, o := range p.Others {
			if o.Amount < 0 || o.Name == "" {
				t.Errorf("%q=%q: %+v", key, value, o)
			}
		}
		for _, taint := range p.Taints {
			if taint.Key == "" || taint.Effect == "" {
				t.Errorf("%q=%q: %+v", key, value, taint)
			}
		}
		if n.gpus < 0 {
			t.Errorf("%q=%q: %d GPUs", key, value, n.gpus)
		}
	})
}

func FuzzSpotPrices(f *testing.F) {
	f.Add("1.5", "a", int64(1), "2")
	f.Add("NaN", "a", int64(0), "")
	f.Fuzz(func(t *testing.T, price, zone string, at int64, earlier string) {
		item := func(price string, at int64) ec2types.SpotPrice {
			return ec2types.SpotPrice{SpotPrice: &price, AvailabilityZone: &zone, Timestamp: aws.Time(time.Unix(at, 0))}
		}
		p, err := highest([]ec2types.SpotPrice{item(price, 1), item(earlier, at)}, []string{"a", "b"})
		if (p == nil) == (err == nil) || p != nil && (math.IsNaN(*p) || *p < 0 || math.IsInf(*p, 0)) {
			t.Errorf("%q, %q: %v, %v", price, earlier, p, err)
		}
	})
}

// FuzzTarget reads random Karpenter NodePools.
func FuzzTarget(f *testing.F) {
	f.Add(`{"spec":{"replicas":3,"limits":{"nodes":"2"}}}`)
	f.Add(`{"spec":{"replicas":3,"limits":{"nodes":"9E"}},"metadata":{"annotations":{"gpuscale.io/removing":"a,,b"}}}`)
	f.Add(`{"spec":{"replicas":-1,"limits":3}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var o map[string]any
		if json.Unmarshal([]byte(text), &o) != nil || o == nil {
			return
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON([]byte(text)); err != nil {
			u.Object = o
		}
		k, tg := karpenter{}, target{object: u, pool: "p"}
		size, err := k.size(tg)
		if err != nil {
			return
		}
		if n, err := tg.replicas(); err != nil || size > n {
			t.Errorf("%s: size %d of %d replicas, %v", text, size, n, err)
		}
		if err := k.resize(tg, 7); err != nil {
			return
		}
		if size, err := k.size(tg); err != nil || size != 7 {
			t.Errorf("%s: asked for 7, is %d, %v", text, size, err)
		}
	})
}
