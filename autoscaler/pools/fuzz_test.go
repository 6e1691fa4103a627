package pools

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscale/gpuscale/plan"
)

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
