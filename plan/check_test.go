package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

func TestCheckNamesEveryField(t *testing.T) {
	three := mig.Placement{Profile: mig.Profile{Compute: 3, Memory: 4}}
	s := Snapshot{
		Pools: []Pool{{Name: "p", Min: 3, Max: 1, ReadyAfter: -1}, {Name: "p"}},
		Nodes: []Node{{Name: "n", Pool: "q", CPUMilli: -1, Operation: &Operation{Phase: "odd"}, Cards: []Card{
			{Device: gpu.Device{Model: gpu.Model{Name: "H100-80GB"}}, MIG: true,
				Instances: []Instance{{Placement: three, Placed: true}, {Placement: three, Placed: true}}},
			{Instances: []Instance{{}}},
		}}},
		Pods: []Pod{{Namespace: "a", Name: "b", Node: "m", Demand: demand.Demand{Cards: -1,
			MIG: []demand.Instances{{Name: "3g.40gb"}}}}, {}},
	}
	err := s.Check()
	if err == nil {
		t.Fatal("nothing found")
	}
	for _, want := range []string{
		"now: is not set", "pools[p].min: 3 is more than max 1", "pools[p].readyAfter: is negative", "pools[p]: is there twice",
		`nodes[n].pool: there is no pool "q"`, "nodes[n].cpuMilli: is negative", "nodes[n].operation.phase:",
		"nodes[n].cards[0].instances:", "nodes[n].cards[0]: is there twice", "has instances without MIG",
		`pods[a/b].node: there is no node "m"`, "pods[a/b].demand.cards: is negative", "pods[a/b].demand.mig[3g.40gb]: count is 0",
		"is not what its name says", "pods[/]: has no name",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in\n%v", want, err)
		}
	}
	if err := (Snapshot{Now: time.Unix(1, 0)}).Check(); err != nil {
		t.Errorf("an empty snapshot: %v", err)
	}
}
