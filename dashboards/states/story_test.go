package states

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
//	hpa KEY min=N max=N current=N desired=N limited=REASON
//	notice NODE                     its provider interrupts it
type story struct{ chapters []chapter }

type chapter struct {
	at    time.Duration
	world string   // for scenario.World
	ours  []string // other lines
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

// happen changes the cluster as a chapter says.
func (c *cluster) happen(ch chapter) error {
	if _, err := c.world.Exec(ch.world); err != nil {
		return fmt.Errorf("at %s: %w", ch.at, err)
	}
	for _, line := range ch.ours {
		if err := c.ours(strings.Fields(line)); err != nil {
			return fmt.Errorf("at %s: %s: %w", ch.at, line, err)
		}
	}
	return nil
}

func (c *cluster) ours(words []string) error {
	if len(words) < 2 {
		return fmt.Errorf("want arguments after %s", words[0])
	}
	switch words[0] {
	case "xid":
		if len(words) != 3 {
			return fmt.Errorf("want a GPU and a code")
		}
		code, err := strconv.Atoi(words[2])
		c.xids[words[1]] = append(c.xids[words[1]], code)
		return err
	case "hot":
		c.hot[words[1]] = true
	case "ecc":
		return c.memoryErrors(words[1], words[2:])
	case "exporters":
		c.down = words[1] == "down"
	case "notice":
		return c.notice(words[1])
	case "hpa":
		return c.hpa(words[1], words[2:])
	}
	return nil
}

// notice is the provider's, two minutes before it interrupts a node.
func (c *cluster) notice(node string) error {
	nodes := c.world.Sim.State.Nodes
	i := slices.IndexFunc(nodes, func(n plan.Node) bool { return n.Name == node })
	if i < 0 {
		return fmt.Errorf("there is no such node")
	}
	nodes[i].LeavesAt, nodes[i].Cordoned = c.world.Sim.State.Now.Add(2*time.Minute), true
	return nil
}

// memoryErrors sets a GPU's counts.
func (c *cluster) memoryErrors(dev string, words []string) error {
	if len(words) != 2 {
		return fmt.Errorf("want a GPU, single-bit and double-bit errors")
	}
	corrected, err := strconv.Atoi(words[0])
	if err != nil {
		return err
	}
	uncorrected, err := strconv.Atoi(words[1])
	c.ecc[dev] = ecc{corrected, uncorrected}
	return err
}

// hpa sets what the HPA controller would write.
func (c *cluster) hpa(key string, words []string) error {
	h := c.hpas[key]
	h.Namespace, h.Name, _ = strings.Cut(key, "/")
	h.Seen = true
	for _, w := range words {
		name, text, ok := strings.Cut(w, "=")
		if !ok {
			return fmt.Errorf("want KEY=VALUE: %q", w)
		}
		number := map[string]*int{"min": &h.Min, "max": &h.Max, "current": &h.Current, "desired": &h.Desired}[name]
		switch {
		case name == "limited":
			h.Limits = []string{text}
		case number != nil:
			n, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			*number = n
		default:
			return fmt.Errorf("an hpa has no %s", name)
		}
	}
	c.hpas[key] = h
	return nil
}
