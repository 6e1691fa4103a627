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
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
)

// TestNodesAreReadOnce: whatever becomes of nodes, of what is on them and of what the
// exporters say, a round sees what one sees that remembers no node.
func TestNodesAreReadOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	c := fullCluster(9)
	readings := NewReadings(start, answersOf(c))
	observer := func() *Observer {
		return New(Options{Cluster: c, Readings: func() *Readings { return readings }, Pools: sizes{}, ConfigMap: partition.DefaultConfigMap})
	}
	keeps, forgets := observer(), observer()
	shared := 0
	var before Observation
	said := "" // by the round before, whose cards nobody may write to any more
	for round := range 400 {
		now := start.Add(time.Duration(round) * time.Second)
		n := &c.nodes[random.IntN(len(c.nodes))]
		if random.IntN(2) == 0 {
			changeNode(random, n)
			n.ResourceVersion = strconv.Itoa(100 + round)
		}
		switch random.IntN(12) {
		case 0: // another node of the same name
			n.UID += "x"
		case 1: // it goes, and another comes
			*n = *c.nodes[0].DeepCopy()
			n.Name, n.UID, n.ResourceVersion = fmt.Sprint("new-", round), types.UID(fmt.Sprint("new-", round)), "1"
		case 2: // a pod ends
			if len(c.pods) > 4 {
				i := random.IntN(len(c.pods))
				c.pods = append(c.pods[:i:i], c.pods[i+1:]...)
			}
		case 3, 4: // the exporters say something new
			readings = NewReadings(now, answersOf(c))
		}
		forgets.nodes = knownNodes{}
		got, err := keeps.Observe(t.Context(), now)
		want, wantErr := forgets.Observe(t.Context(), now)
		if err != nil || wantErr != nil {
			t.Fatal(err, wantErr)
		}
		if len(got.Nodes) != len(want.Nodes) {
			t.Fatalf("round %d: %d nodes, want %d", round, len(got.Nodes), len(want.Nodes))
		}
		for i := range want.Nodes {
			if !reflect.DeepEqual(got.Nodes[i], want.Nodes[i]) {
				t.Fatalf("round %d: %+v\nread anew %+v", round, got.Nodes[i], want.Nodes[i])
			}
			if i < len(before.Nodes) && len(got.Nodes[i].Cards) > 0 && len(before.Nodes[i].Cards) > 0 && &got.Nodes[i].Cards[0] == &before.Nodes[i].Cards[0] {
				shared++
			}
		}
		if len(keeps.nodes.known) != len(c.nodes) {
			t.Fatalf("round %d: %d nodes are known of %d", round, len(keeps.nodes.known), len(c.nodes))
		}
		if now := fmt.Sprintf("%+v", before.Nodes); said != "" && now != said {
			t.Fatalf("round %d: the round before has become %s\nwas %s", round, now, said)
		}
		mine := map[*plan.Card]string{}
		for i := range got.Nodes {
			if n := &got.Nodes[i]; len(n.Cards) > 0 {
				if other := mine[&n.Cards[0]]; other != "" {
					t.Fatalf("round %d: %s has the cards of %s", round, n.Name, other)
				}
				mine[&n.Cards[0]] = n.Name
			}
		}
		before, said = got, fmt.Sprintf("%+v", got.Nodes)
	}
	if shared < 400 {
		t.Errorf("cards of %d nodes only were as in the round before: the test shows too little", shared)
	}
}

// changeNode changes one thing that is read of a node.
func changeNode(random *rand.Rand, n *corev1.Node) {
	*n = *n.DeepCopy() // what was read of it before is still looked at
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

// TestClassesOfNodesAreNotMissed: what a node's resource means may change without the
// node.
func TestClassesOfNodesAreNotMissed(t *testing.T) {
	var k knownNodes
	n := node("n", corev1.ResourceList{"example.com/fast": resource.MustParse("1")})
	n.ObjectMeta.UID, n.ResourceVersion = "u", "1"
	read := func(c *Claims) int {
		k.begin(c)
		defer k.end()
		return len(k.of(c, n).says.Others)
	}
	if others := read(NewClaims(nil, nil, nil, nil)); others != 1 {
		t.Fatalf("without a class: %d others", others)
	}
	if others := read(NewClaims(nil, nil, classesServing("example.com/fast"), nil)); others != 0 {
		t.Errorf("served by a class: %d others", others)
	}
}

// TestSameCard changes each field of a card, those that are still to be invented
// included: a card that differs must not be taken for the one before.
func TestSameCard(t *testing.T) {
	fields := 0
	var each func(path string, at func(*plan.Card) reflect.Value)
	each = func(path string, at func(*plan.Card) reflect.Value) {
		a, b := plan.Card{}, plan.Card{}
		switch v := at(&b); v.Interface().(type) {
		case time.Time:
			v.Set(reflect.ValueOf(start))
		case sample.Value:
			v.Set(reflect.ValueOf(sample.Known(0, 0)))
		default:
			switch v.Kind() {
			case reflect.Struct:
				for i := range v.NumField() {
					each(path+"."+v.Type().Field(i).Name, func(c *plan.Card) reflect.Value { return at(c).Field(i) })
				}
				return
			case reflect.String:
				v.SetString("x")
			case reflect.Bool:
				v.SetBool(true)
			case reflect.Int:
				v.SetInt(1)
			case reflect.Uint8:
				v.SetUint(1)
			case reflect.Slice:
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			default:
				t.Fatalf("%s is a %s: say here how it is changed", path, v.Kind())
			}
		}
		fields++
		if sameCard(&a, &b) || !sameCard(&b, &b) {
			t.Errorf("%s is not looked at", path)
		}
	}
	each("Card", func(c *plan.Card) reflect.Value { return reflect.ValueOf(c).Elem() })
	if fields < 12 {
		t.Errorf("only %d fields were tried", fields)
	}
	held := plan.Card{Device: gpu.Device{UUID: "a"}, Instances: []plan.Instance{{UUID: "i", IdleSince: start}}}
	other := held
	other.Instances = []plan.Instance{{UUID: "i", IdleSince: start.Add(time.Second)}}
	if sameCard(&held, &other) {
		t.Error("an instance has been idle since later")
	}
}

// TestUnnumberedNodesAreReadAnew: without a UID and a version nobody could tell whether
// a node has changed.
func TestUnnumberedNodesAreReadAnew(t *testing.T) {
	var k knownNodes
	for _, n := range []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}}, {ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1"}},
	} {
		k.begin(nil)
		k.of(nil, n)
		n.Spec.Unschedulable = true
		if !k.of(nil, n).says.Cordoned {
			t.Errorf("UID %q, version %q: it is taken for what it was", n.UID, n.ResourceVersion)
		}
		k.end()
	}
}
