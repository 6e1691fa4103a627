package loop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/gpuscale/gpuscale/plan"
)

// TestStatusOfAFixedPool: it is ready when all its nodes are, and one without any
// says what to do.
func TestStatusOfAFixedPool(t *testing.T) {
	for name, c := range map[string]struct {
		size, ready int
		want        string
	}{
		"nobody put the label on": {0, 0, "False NoNodes: no node has the label gpuscale.io/pool=p; put it"},
		"one is away":             {3, 2, "False NotAllReady: 2 of 3 nodes are ready"},
		"all are there":           {3, 3, "True AllReady: "},
	} {
		pool := named("p")
		f := finding{pool: plan.Pool{Name: "p", Fixed: true, Size: c.size, Target: c.size, Min: c.size, Max: c.size}, ready: c.ready}
		f.write(pool)
		got := meta.FindStatusCondition(pool.Status.Conditions, conditionReady)
		if text := fmt.Sprintf("%s %s: %s", got.Status, got.Reason, got.Message); !strings.HasPrefix(text, c.want) {
			t.Errorf("%s: %s", name, text)
		}
		if s := pool.Status; int(s.Size) != c.size || int(s.Target) != c.size || int(s.Ready) != c.ready || s.Upcoming != 0 {
			t.Errorf("%s: size %d, target %d, ready %d, upcoming %d", name, s.Size, s.Target, s.Ready, s.Upcoming)
		}
	}
}

// TestAFixedPoolHasNoBounds: a minimum that nobody has set is no number.
func TestAFixedPoolHasNoBounds(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	var r Round
	r.Now = start
	r.Pools = []plan.Pool{{Name: "fixed", Fixed: true, Min: 2, Max: 2, Target: 2, Size: 2}, {Name: "made", Min: 1, Max: 4}}
	if err := m.publish(r, start); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, family := range families {
		for _, series := range family.Metric {
			labels := map[string]string{}
			for _, l := range series.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["pool"] != "" {
				kinds[labels["pool"]+" "+labels["kind"]] = true
			}
		}
	}
	for kind, want := range map[string]bool{"fixed min": false, "fixed max": false, "fixed size": true, "fixed ready": true, "made min": true, "made max": true} {
		if kinds[kind] != want {
			t.Errorf("%s: there %v", kind, kinds[kind])
		}
	}
}
