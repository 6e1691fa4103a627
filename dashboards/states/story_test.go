package states

import (
	"fmt"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/plan"
)

// story is the events of a state: a cluster in plan/scenario's language, and its changes
// over time. Some lines are ours:
//
//	at DURATION                     what follows happens so long after the beginning
//	xid NODE/GPU CODE               the driver reports an XID
//	hot NODE/GPU                    the GPU is too warm from now on, and throttled
//	ecc NODE/GPU SINGLE DOUBLE      its memory has had so many errors
//	exporters down|up               none of them answers
//	hpa KEY {field: value}          these fields of an HPA are written
//	notice NODE                     its provider interrupts it
type story struct{ chapters []chapter }

type chapter struct {
	at    time.Duration
	world string   // for scenario.World
	ours  []string // lines of ourVerbs
}

// ourVerbs are not the scenario language's.
var ourVerbs = map[string]bool{"xid": true, "hot": true, "ecc": true, "exporters": true, "hpa": true, "notice": true}

func parseStory(text string) (story, error) {
	s := story{chapters: []chapter{{}}}
	for i, line := range strings.Split(text, "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		last := &s.chapters[len(s.chapters)-1]
		switch {
		case verb == "at":
			at, err := time.ParseDuration(rest)
			if err != nil || at <= last.at || at >= Length {
				return s, fmt.Errorf("line %d: at %s: want a duration after %s and before %s", i+1, rest, last.at, Length)
			}
			s.chapters = append(s.chapters, chapter{at: at})
		case ourVerbs[verb]:
			last.ours = append(last.ours, line)
		default:
			last.world += line + "\n"
		}
	}
	return s, nil
}

// happen applies a chapter's changes to the cluster.
func (c *cluster) happen(ch chapter) error {
	if _, err := c.world.Exec(ch.world); err != nil {
		return fmt.Errorf("at %s: %w", ch.at, err)
	}
	for _, line := range ch.ours {
		if err := c.ours(line); err != nil {
			return fmt.Errorf("at %s: %s: %w", ch.at, line, err)
		}
	}
	return nil
}

func (c *cluster) ours(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	name, rest, _ := strings.Cut(rest, " ")
	var first, second int
	switch verb {
	case "xid":
		_, err := fmt.Sscan(rest, &first)
		c.xids[name] = append(c.xids[name], first)
		return err
	case "hot":
		c.hot[name] = true
	case "ecc":
		_, err := fmt.Sscan(rest, &first, &second)
		c.ecc[name] = ecc{first, second}
		return err
	case "exporters":
		c.down = name == "down"
	case "notice":
		return c.notice(name)
	case "hpa":
		h := c.hpas[name].DeepCopy() // what was seen before does not change
		if h == nil {
			h = &autoscalingv2.HorizontalPodAutoscaler{}
		}
		h.Namespace, h.Name, _ = strings.Cut(name, "/")
		c.hpas[name] = h
		return yaml.UnmarshalStrict([]byte(rest), h)
	}
	return nil
}

// notice applies the provider's notice, two minutes before it interrupts a node.
func (c *cluster) notice(node string) error {
	nodes := c.world.Sim.State.Nodes
	i := slices.IndexFunc(nodes, func(n plan.Node) bool { return n.Name == node })
	if i < 0 {
		return fmt.Errorf("there is no such node")
	}
	nodes[i].LeavesAt, nodes[i].Cordoned = c.world.Sim.State.Now.Add(2*time.Minute), true
	return nil
}
