package observe

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

// TestCachedObjects: whatever changes in nodes, pods and samples, a reconcile gives the same
// result as one without a cache.
func TestCachedObjects(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	c := fullCluster(9)
	readings := NewReadings(start, answersOf(c))
	options := Options{Cluster: c, Readings: func() *Readings { return readings }, Pools: sizes{}, ConfigMap: partition.DefaultConfigMap}
	keeps, forgets := New(options), New(options)
	var before Observation
	former := "" // of the previous reconcile, whose GPUs must not change any more
	for reconcile := range 400 {
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
		forgets.nodes, forgets.pods = knownNodes{}, converted{}
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
		if len(keeps.nodes.known) != len(c.nodes) || len(keeps.pods.known) != len(c.pods) {
			t.Fatalf("reconcile %d: %d nodes are known of %d, %d pods of %d", reconcile, len(keeps.nodes.known), len(c.nodes), len(keeps.pods.known), len(c.pods))
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
	var k knownNodes
	for _, n := range []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}}, {ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1"}},
	} {
		k.begin(nil)
		k.of(nil, n)
		n.Spec.Unschedulable = true
		if !k.of(nil, n).Cordoned {
			t.Errorf("UID %q, version %q: the cached facts are used", n.UID, n.ResourceVersion)
		}
		k.end()
	}
}
