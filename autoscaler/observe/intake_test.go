package observe

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// answering is a fake of Prometheus that has these answers, in the order of the queries.
type answering struct {
	vectors []prom.Vector
	fails   int // the query that fails after its first element, -1 for none
	asked   int
}

func (a *answering) Each(_ context.Context, _ string, _ time.Time, turn sync.Locker, take func([][2][]byte, float64, time.Time)) error {
	turn.Lock()
	defer turn.Unlock()
	n := a.asked
	a.asked++
	buffer := make([]byte, 0, 1000) // reused for each element, as by the real reader
	for _, s := range a.vectors[n] {
		buffer = buffer[:0]
		var labels [][2][]byte
		for name, value := range s.Labels.All() {
			at := len(buffer)
			buffer = append(append(buffer, name...), value...)
			labels = append(labels, [2][]byte{buffer[at : at+len(name)], buffer[at+len(name):]})
		}
		take(labels, s.Value, s.Time)
		clear(buffer)
		if n == a.fails {
			return errors.New("the connection broke")
		}
	}
	return nil
}

func inOrder(a Answers) []prom.Vector {
	return []prom.Vector{a.Age, a.Info, a.InstanceInfo, a.Allocated, a.Busy, a.InstanceBusy, a.SampleAge, a.Healthy, a.Idle}
}

// TestReadIsNewReadings: reading element by element, out of a reused buffer, gives the same as
// whole vectors.
func TestReadIsNewReadings(t *testing.T) {
	for name, a := range map[string]Answers{"gpus": answersOf(fullCluster(3)), "instances": twoHalves(1, "a", "b")} {
		a.Healthy = append(a.Healthy, series(0, "exported_node", "n", "node", "scraped", "gpu", "0"))
		a.Busy = append(a.Busy, series(0.5, "node", "n", "gpu", "0"))
		a.SampleAge = append(a.SampleAge, series(2, "node", "n", "gpu", "0"), series(2, "node", "n", "gpu", "77"))
		fake := &answering{vectors: inOrder(a), fails: -1}
		got, err := Read(t.Context(), fake, nil, start)
		if err != nil {
			t.Fatal(err)
		}
		if want := NewReadings(start, a); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		if _, there := got.nodes["scraped"]; there || got.nodes["n"].gpus[77] != nil {
			t.Errorf("%s: a GPU exists because of Prometheus' own label or of an age alone", name)
		}
		for n := range fake.vectors {
			broken := &answering{vectors: inOrder(a), fails: n}
			if _, err := Read(t.Context(), broken, nil, start); (err == nil) != (len(broken.vectors[n]) == 0) {
				t.Errorf("%s: err %v though question %d broke off", name, err, n)
			}
		}
	}
}

// FuzzIntake: any series is recorded or skipped, and missing labels are not made up.
func FuzzIntake(f *testing.F) {
	f.Add("n", "0", "1", "0", "chat", "a", 1.0)
	f.Add("", "-1", "", "x", "", "", -1.0)
	f.Add("n", "99999999999999999999", "\x00", "-5", "/", "/", 1e300)
	f.Fuzz(func(t *testing.T, node, device, instance, first, namespace, pod string, value float64) {
		labels := [][2][]byte{
			{[]byte("gpu"), []byte(device)}, {[]byte("gpu_instance_id"), []byte(instance)}, {[]byte("namespace"), []byte(namespace)},
			{[]byte("node"), []byte(node)}, {[]byte("pod"), []byte(pod)}, {[]byte("start"), []byte(first)},
		}
		in := newIntake(start)
		for _, take := range []func(*element){in.age, in.info, in.instanceInfo, in.allocated, in.busy, in.instanceBusy, in.sampleAge, in.healthy, in.idle} {
			take(newElement(labels, value))
		}
		for name, n := range in.readings.nodes {
			if name != node || n.age < 0 {
				t.Errorf("node %q, %s old, of %q", name, n.age, node)
			}
			for index, c := range n.gpus {
				if index < 0 || node == "" || c.uuid != "" || c.model != "" {
					t.Errorf("GPU %d of %q: %+v", index, node, c)
				}
			}
		}
	})
}
