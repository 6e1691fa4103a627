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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// TestOptionalKinds: a cluster whose API has no resource claims has none, and is not asked for them in every reconcile.
// A cluster that cannot list them is not observed. A claim that does not exist makes its pod unreadable.
func TestOptionalKinds(t *testing.T) {
	w, away := newWorld(t), errors.New("away")
	for _, c := range []struct {
		after time.Duration
		err   error // of the API
		asked int
		want  error
	}{
		{0, nil, 1, nil}, {time.Second, &meta.NoKindMatchError{}, 1, nil}, {2 * time.Second, away, 0, nil},
		{2 * time.Minute, away, 1, away}, {2*time.Minute + time.Second, nil, 1, nil},
	} {
		asked := 0
		w.o.o.Cluster = without{w.client, c.err, &asked}
		if _, err := w.o.read(t.Context(), start.Add(c.after)); !errors.Is(err, c.want) || asked != c.asked {
			t.Errorf("after %s: asked %d times, %v", c.after, asked, err)
		}
	}
	p := pod("a", "", nil)
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c0", ResourceClaimName: ptr.To("gone")}}
	if got := NewClaims(nil, nil, nil, nil).ConvertPod(p).Unreadable; !strings.Contains(got, "resource claim c0: there is no ResourceClaim gone") {
		t.Errorf("%q", got)
	}
}

// without is a cluster that does not list device classes, and counts the requests for them.
type without struct {
	client.Reader
	err   error
	asked *int
}

func (w without) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	if _, ok := list.(*resourcev1.DeviceClassList); ok {
		*w.asked++
		return w.err
	}
	return w.Reader.List(ctx, list, o...)
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
		{"device.attributes['gpu.nvidia.com'].profile == r'3g.40gb'", "", map[string]string{"profile": "3g.40gb"}},
		{`device.attributes['gpu.nvidia.com'].profile == '1g.10gb\x2bme'`, "", map[string]string{"profile": "1g.10gb+me"}},
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
	// The supported terms beside an unsupported one are read.
	s := readSelectors(cel("device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'", "device.attributes['gpu.nvidia.com'].index == 0"))
	if s.unread == nil || s.driver != "gpu.nvidia.com" || s.attributes["gpu.nvidia.com"]["type"] != "gpu" {
		t.Errorf("got %+v", s)
	}
}

// TestAlternativesAreUncertain: a driver in only one of two alternatives must not hide an accelerator.
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
	f.Add("device.driver == 'x' &&& a") // no CEL, which the API server would refuse
	f.Fuzz(func(t *testing.T, expression string) {
		s := readSelectors(cel(expression))
		if s.unread != nil {
			return
		}
		same := "device.driver == 'same'"
		for _, other := range []string{"(" + expression + "\n)", "(" + expression + "\n) && (" + expression + "\n)"} {
			if again := readSelectors(cel(other)); !reflect.DeepEqual(again, s) {
				t.Fatalf("%q gives %+v, and %q gives %+v", expression, s, other, again)
			}
		}
		if either := readSelectors(cel("(" + expression + "\n) || " + same)); either.unread == nil || either.driver != "" || len(either.attributes) > 0 {
			t.Fatalf("one of two is taken for certain: %+v", either)
		}
		if s.driver == "" && len(s.attributes) == 0 {
			t.Fatalf("%q is read without a result", expression)
		}
	})
}
