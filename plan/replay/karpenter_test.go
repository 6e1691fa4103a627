package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// reported is a plan in words.
func reported(p plan.Plan) string {
	var all []string
	for _, a := range p.Actions {
		switch a.Verb {
		case plan.ScaleUp:
			all = append(all, fmt.Sprintf("%s to %d", a.Pool, a.To))
		case plan.RemoveNode:
			all = append(all, "remove "+a.Node)
		case plan.Drain:
			all = append(all, "drain "+a.Node)
		}
	}
	return strings.Join(all, ", ")
}

// karpenter waits for a second without new pods, makes the cheapest node that fits the
// batch, most CPU first, and removes what is empty 15 s after it has seen it.
func TestKarpenter(t *testing.T) {
	o := options()
	o.GPUs = []int{1, 2, 4}
	x := traced(t, header+"a,1000,1000,1,1000,0,9,\nb,1000,1000,2,1000,0,9,\nc,1000,1000,1,1000,1,9,\n", o)
	k := &karpenter{known: map[string]bool{}}
	w := x.world(x.pools("whole", nil))
	start := w.State.Now
	for _, j := range x.jobs[:2] {
		w.State.Pods = append(w.State.Pods, x.pod(j, start))
	}
	for _, s := range []struct {
		at   time.Duration
		want string
	}{
		{0, ""}, {500 * time.Millisecond, ""}, // then c comes, and the window goes on
		{time.Second, ""}, {2 * time.Second, "whole-4 to 1"}, {3 * time.Second, ""}, {20 * time.Second, ""},
		{182 * time.Second, ""}, // they run, and then end
		{190 * time.Second, ""}, {196 * time.Second, ""}, {197 * time.Second, "remove whole-4-1"}, {300 * time.Second, ""},
	} {
		w.Advance(start.Add(s.at).Sub(w.State.Now))
		switch s.at {
		case time.Second:
			w.State.Pods = append(w.State.Pods, x.pod(x.jobs[2], w.State.Now))
		case 182 * time.Second:
			for _, name := range []string{"a", "b", "c"} {
				w.RemovePod("trace/" + name)
			}
		}
		made := k.plan(w.State)
		if got := reported(made); got != s.want {
			t.Errorf("after %s: %q, want %q", s.at, got, s.want)
		}
		if err := w.Apply(made); err != nil {
			t.Fatal(err)
		}
	}
}

// Underused nodes leave where their pods fit elsewhere; alone on a large node, a pod gets
// a cheaper one first. Pods that may not be evicted keep their node.
func TestKarpenterConsolidates(t *testing.T) {
	for _, c := range []struct {
		name  string
		pods  map[string]string // node of each
		stays bool
		want  []string
	}{
		{"two half nodes", map[string]string{"a": "whole-2-1", "b": "whole-2-2"}, false, []string{"drain whole-2-1"}},
		{"one pod on a large node", map[string]string{"a": "whole-2-1"}, false, []string{"whole-1 to 1", "drain whole-2-1"}},
		{"not evictable", map[string]string{"a": "whole-2-1", "b": "whole-2-2"}, true, nil},
	} {
		o := options()
		o.GPUs = []int{1, 2}
		x := traced(t, header+"a,1000,1000,1,1000,0,9,\nb,1000,1000,1,1000,0,9,\n", o)
		w := x.world(x.pools("whole", nil))
		k := &karpenter{known: map[string]bool{}}
		nodes := map[string]bool{}
		for _, n := range c.pods {
			nodes[n] = true
		}
		if err := w.Apply(plan.Plan{Actions: []plan.Action{{Verb: plan.ScaleUp, Pool: "whole-2", To: len(nodes)}}}); err != nil {
			t.Fatal(err)
		}
		w.Advance(3 * time.Minute)
		for i := range w.State.Nodes {
			w.State.Nodes[i].Cordoned = true // so that each pod goes where the case says
		}
		for _, j := range x.jobs {
			node, ok := c.pods[j.Name]
			if !ok {
				continue
			}
			p := x.pod(j, w.State.Now)
			p.Evictable = !c.stays
			w.State.Pods = append(w.State.Pods, p)
			i := slices.IndexFunc(w.State.Nodes, func(n plan.Node) bool { return n.Name == node })
			w.State.Nodes[i].Cordoned = false
			w.Advance(0)
			w.State.Nodes[i].Cordoned = true
		}
		for i := range w.State.Nodes {
			w.State.Nodes[i].Cordoned = false
		}
		var got []string
		for range 60 {
			made := k.plan(w.State)
			if s := reported(made); s != "" {
				got = append(got, s)
			}
			if len(got) == len(c.want) && len(got) > 0 {
				break
			}
			if err := w.Apply(made); err != nil {
				t.Fatal(err)
			}
			w.Advance(5 * time.Second)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
