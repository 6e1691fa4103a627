package world

import (
	"context"
	"fmt"
	"strconv"

	"github.com/gpuscale/gpuscale/sandbox/story"
)

// Do makes a fault of the story happen. Programs that can be killed are those
// of the control plane and Prometheus.
func (w *World) Do(ctx context.Context, f story.Fault) error {
	node := f.Args["node"]
	found := true
	switch f.What {
	case "wedge", "unwedge":
		found = w.machines.Wedge(node, f.What == "wedge")
	case "xid":
		card, err1 := strconv.Atoi(f.Args["card"])
		code, err2 := strconv.Atoi(f.Args["code"])
		if err1 != nil || err2 != nil {
			return fmt.Errorf("fault xid: card=%s code=%s are not numbers", f.Args["card"], f.Args["code"])
		}
		found = w.machines.XID(node, card, code)
	case "kill":
		program := f.Args["program"]
		if err := w.cluster.KillProgram(program); err != nil {
			return err
		}
		return w.cluster.StartProgram(ctx, program)
	default:
		return fmt.Errorf("unknown fault %q", f.What)
	}
	if !found {
		return fmt.Errorf("fault %s: node %s has no machine that is up, or no such card", f.What, node)
	}
	return nil
}
