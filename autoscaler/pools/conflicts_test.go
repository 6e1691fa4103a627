package pools

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
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
