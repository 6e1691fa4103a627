package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// TestCheckTakesPublishedTables: a layout that a node's driver allows is no reason to
// stop planning because our own table of the product is wrong.
func TestCheckTakesPublishedTables(t *testing.T) {
	own, _ := mig.ForModel("B300")
	spec := own.Spec()
	for i, p := range spec.Profiles {
		if p.Compute == 3 {
			spec.Profiles[i].Starts = []int{0, 2, 4}
		}
	}
	tables, err := mig.NewTables(spec)
	if err != nil {
		t.Fatal(err)
	}
	s := Snapshot{Now: time.Unix(1, 0), Nodes: []Node{{Name: "n", GPUs: []GPU{{Device: gpu.Device{Model: gpu.Model{Name: "B300"}}, MIG: true,
		Instances: []Instance{{Placement: mig.Placement{Profile: mig.Profile{Compute: 3, Memory: 4}, Start: 2}, Placed: true}}}}}}}
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "may start at") {
		t.Errorf("by our own table: %v", err)
	}
	s.Tables = tables
	if err := s.Check(); err != nil {
		t.Errorf("by the published one: %v", err)
	}
}
