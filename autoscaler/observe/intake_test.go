package observe

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// answering is a double of Prometheus that has these answers, in the order in which
// they are asked for.
type answering struct {
	vectors []prom.Vector
	fails   int // the question that fails after its first element, -1 for none
	asked   int
}

func (a *answering) Each(_ context.Context, _ string, _ time.Time, turn sync.Locker, take func([][2][]byte, float64, time.Time)) error {
	turn.Lock()
	defer turn.Unlock()
	n := a.asked
	a.asked++
	room := make([]byte, 0, 1000) // used again for each element, as the reader's is
	for _, s := range a.vectors[n] {
		room = room[:0]
		var labels [][2][]byte
		for name, value := range s.Labels.All() {
			at := len(room)
			room = append(append(room, name...), value...)
			labels = append(labels, [2][]byte{room[at : at+len(name)], room[at+len(name):]})
		}
		take(labels, s.Value, s.Time)
		clear(room)
		if n == a.fails {
			return errors.New("the connection broke")
		}
	}
	return nil
}

func inOrder(a Answers) []prom.Vector {
	return []prom.Vector{a.Age, a.Info, a.InstanceInfo, a.Held, a.Busy, a.InstanceBusy, a.SampleAge, a.Healthy, a.Idle}
}

// TestReadIsNewReadings: what is read element by element, out of a buffer that is used
// again, is what whole vectors give.
func TestReadIsNewReadings(t *testing.T) {
	for name, a := range map[string]Answers{"cards": answersOf(fullCluster(3)), "instances": twoHalves(1, "a", "b")} {
		a.Healthy = append(a.Healthy, series(0, "exported_node", "n", "node", "scraped", "gpu", "0"))
		a.Busy = append(a.Busy, series(0.5, "node", "n", "gpu", "0"))
		a.SampleAge = append(a.SampleAge, series(2, "node", "n", "gpu", "0"), series(2, "node", "n", "gpu", "77"))
		double := &answering{vectors: inOrder(a), fails: -1}
		got, err := Read(t.Context(), double, start)
		if err != nil {
			t.Fatal(err)
		}
		want := NewReadings(start, a)
		if diff := sameReadings(got, want); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if _, there := got.nodes["scraped"]; there || got.nodes["n"].cards[77] != nil {
			t.Errorf("%s: a card is there of which only Prometheus' own label or an age speaks", name)
		}
		for n := range double.vectors {
			broken := &answering{vectors: inOrder(a), fails: n}
			if _, err := Read(t.Context(), broken, start); (err == nil) != (len(broken.vectors[n]) == 0) {
				t.Errorf("%s: err %v though question %d broke off", name, err, n)
			}
		}
	}
}

// sameReadings says of what two readings differ, empty for nothing.
func sameReadings(a, b *Readings) string {
	if len(a.nodes) != len(b.nodes) {
		return "the nodes"
	}
	for name, n := range a.nodes {
		m := b.nodes[name]
		if m == nil || n.age != m.age || n.aged != m.aged || len(n.cards) != len(m.cards) || len(n.held) != len(m.held) {
			return "node " + name
		}
		for i, c := range n.cards {
			d := m.cards[i]
			if d == nil || c.listed != d.listed || c.uuid != d.uuid || c.model != d.model || c.mig != d.mig || c.work != d.work ||
				c.health != d.health || len(c.holders) != len(d.holders) || len(c.instances) != len(d.instances) {
				return "a card of " + name
			}
			for id, in := range c.instances {
				if of := d.instances[id]; of == nil || in.profile != of.profile || in.start != of.start || in.uuid != of.uuid || in.work != of.work || len(in.holders) != len(of.holders) {
					return "an instance of " + name
				}
			}
		}
	}
	return ""
}

// FuzzIntake: whatever a series says of itself, it is taken in or passed over, and
// nothing that it lacks is made up.
func FuzzIntake(f *testing.F) {
	f.Add("n", "0", "1", "0", "chat", "a", 1.0)
	f.Add("", "-1", "", "x", "", "", -1.0)
	f.Add("n", "99999999999999999999", "\x00", "-5", "/", "/", 1e300)
	f.Fuzz(func(t *testing.T, node, card, instance, first, namespace, pod string, value float64) {
		labels := [][2][]byte{
			{[]byte("gpu"), []byte(card)}, {[]byte("gpu_instance_id"), []byte(instance)}, {[]byte("namespace"), []byte(namespace)},
			{[]byte("node"), []byte(node)}, {[]byte("pod"), []byte(pod)}, {[]byte("start"), []byte(first)},
		}
		in := newIntake(start)
		for _, take := range []func(*element){in.age, in.info, in.instanceInfo, in.held, in.busy, in.instanceBusy, in.sampleAge, in.healthy, in.idle} {
			take(newElement(labels, value))
		}
		for name, n := range in.readings.nodes {
			if name != node || n.age < 0 {
				t.Errorf("node %q, %s old, of %q", name, n.age, node)
			}
			for index, c := range n.cards {
				if index < 0 || node == "" || c.uuid != "" || c.model != "" {
					t.Errorf("card %d of %q: %+v", index, node, c)
				}
			}
		}
	})
}
