package world

import (
	"context"
	"fmt"

	"github.com/gpuscale/gpuscale/sandbox/story"
)

// Do makes a fault of the story happen. Programs that can be killed are those
// of the control plane and Prometheus.
func (w *World) Do(ctx context.Context, f story.Fault) error {
	var found bool
	switch f.What {
	case "wedge", "unwedge":
		found = w.machines.Wedge(f.Node, f.What == "wedge")
	case "xid":
		found = w.machines.XID(f.Node, f.GPU, f.Code)
	case "kill":
		if err := w.cluster.KillProgram(f.Program); err != nil {
			return err
		}
		return w.cluster.StartProgram(ctx, f.Program)
	default:
		return fmt.Errorf("unknown fault %q", f.What)
	}
	if !found {
		return fmt.Errorf("fault %s: node %s has no machine that is up, or no such GPU", f.What, f.Node)
	}
	return nil
}
