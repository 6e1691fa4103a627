package node

import (
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestManagerComparesNamesAsStrings: like mig-parted v0.13.1, names are compared as strings, GPU by GPU. A
// GPU that differs is cleared first. If its driver does not know the name, the GPU stays empty and the change
// still succeeds. A text that is not a valid name fails earlier.
func TestManagerComparesNamesAsStrings(t *testing.T) {
	table, _ := mig.ForModel("A100-80GB")
	halves, err := mig.ParseLayout(table, "3g@0 3g@4")
	require.NoError(t, err)
	for devices, want := range map[string]struct {
		state     string
		instances int
	}{
		"3g.40gb: 2":              {contract.StateSuccess, 2},
		"3g.39gb: 2":              {contract.StateSuccess, 0},
		"3g.40gb: 1, 1g.11gb: 1":  {contract.StateSuccess, 0},
		"3g.40gb: 2, 1g.10gb: 0":  {contract.StateSuccess, 2},
		"3g.40gb: 0":              {contract.StateFailed, 2},
		"3g.40gb: 1, 1g.10gb: -1": {contract.StateFailed, 2},
		"3g: 2":                   {contract.StateFailed, 2},
		"1g.10gb.me: 1":           {contract.StateFailed, 2},
	} {
		now := time.Unix(0, 0)
		m, err := New(Spec{Name: "a", Product: "NVIDIA-A100-SXM4-80GB", GPUs: 1, Layouts: []mig.Layout{halves}, Delays: DefaultDelays()}, now)
		require.NoError(t, err)
		config := []byte("version: v1\nmig-configs:\n  a: [{devices: [0], mig-enabled: true, mig-devices: {" + devices + "}}]\n")
		state := m.StepManager("a", config, now)[contract.StateLabel]
		for state == contract.StatePending {
			now = now.Add(time.Second)
			if s, ok := m.StepManager("a", config, now)[contract.StateLabel]; ok {
				state = s
			}
		}
		if n := len(m.GPUs()[0].Instances); state != want.state || n != want.instances {
			t.Errorf("%s: %s with %d instances (%s), want %s with %d", devices, state, n, m.Failure(), want.state, want.instances)
		}
	}
}
