package observe

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
)

// answering is a fake of Prometheus that has these answers, in the order of the queries.
type answering struct {
	vectors []prom.Vector
	fails   int // the query that fails, -1 for none
	asked   int
}

func (a *answering) Query(context.Context, string, time.Time) (prom.Vector, error) {
	n := a.asked
	a.asked++
	if n == a.fails {
		return nil, errors.New("the connection broke")
	}
	return a.vectors[n], nil
}

func inOrder(a Answers) []prom.Vector {
	return []prom.Vector{a.Age, a.Info, a.InstanceInfo, a.Allocated, a.Busy, a.InstanceBusy, a.SampleAge, a.Healthy, a.Idle}
}

// TestReadIsNewReadings: what is asked for one after the other gives the same as all at once.
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
			if _, err := Read(t.Context(), broken, nil, start); err == nil {
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
		labels := prom.FromMap(map[string]string{
			"gpu": device, "gpu_instance_id": instance, "namespace": namespace, "node": node, "pod": pod, "start": first,
		})
		in := newIntake(start)
		for _, take := range []func(*prom.Sample){in.age, in.info, in.instanceInfo, in.allocated, in.busy, in.instanceBusy, in.sampleAge, in.healthy, in.idle} {
			take(&prom.Sample{Labels: labels, Value: value})
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
