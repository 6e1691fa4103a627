package plan

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRulesAreKubernetes compares rulesAllow with a plain implementation of
// what kube-scheduler's PodTopologySpread and InterPodAffinity filters
// document, for every kind on every node of random worlds.
func TestRulesAreKubernetes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := Snapshot{Now: noon}
		for i := range rapid.IntRange(1, 5).Draw(r, "nodes") {
			n := Node{Name: fmt.Sprintf("n%d", i), Ready: rapid.IntRange(0, 4).Draw(r, "ready") > 0, Labels: map[string]string{"host": fmt.Sprint(i)}}
			if zone := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(r, "zone"); zone != "" {
				n.Labels["zone"] = zone
			}
			if rapid.IntRange(0, 3).Draw(r, "kind") > 0 {
				n.Labels["kind"] = "x"
			}
			n.Cordoned = rapid.IntRange(0, 4).Draw(r, "cordoned") == 0
			if rapid.IntRange(0, 3).Draw(r, "tainted") == 0 {
				n.Taints = []Taint{{"t", "", "NoSchedule"}}
			}
			s.Nodes = append(s.Nodes, n)
		}
		for i := range rapid.IntRange(1, 8).Draw(r, "pods") {
			p := Pod{Namespace: "a", Name: fmt.Sprint("p", i), Groups: groups(r, "in")}
			if at := rapid.IntRange(-3, len(s.Nodes)-1).Draw(r, "at"); at >= 0 {
				p.Node = s.Nodes[at].Name
			}
			drawRules(r, &p)
			if rapid.Bool().Draw(r, "selects") {
				p.NodeSelector = map[string]string{"kind": "x"}
			}
			s.Pods = append(s.Pods, p)
		}
		w := newWorld(s, DefaultPolicy())
		for i := range w.pending {
			p := w.pending[i].pod
			for j := range w.nodes {
				k := &w.kinds[w.pending[i].kind]
				if got, want := w.rulesAllow(k, &w.nodes[j]), allowed(s, p, w.nodes[j].Node); got != want {
					r.Fatalf("%+v on %s: %v, Kubernetes says %v\nnodes %+v\npods %+v", *p, w.nodes[j].name, got, want, s.Nodes, s.Pods)
				}
			}
		}
	})
}

func groups(r *rapid.T, what string) []string {
	var all []string
	for _, g := range []string{"x", "y"} {
		if rapid.Bool().Draw(r, what) {
			all = append(all, g)
		}
	}
	return all
}

func drawRules(r *rapid.T, p *Pod) {
	rule := func() Rule {
		return Rule{rapid.SampledFrom([]string{"zone", "host"}).Draw(r, "key"), rapid.SampledFrom([]string{"x", "y"}).Draw(r, "group")}
	}
	spread := func(skew int) Spread {
		return Spread{rule(), skew, rapid.IntRange(0, 4).Draw(r, "domains"), rapid.Bool().Draw(r, "ignore"), rapid.Bool().Draw(r, "honor")}
	}
	switch rapid.IntRange(0, 5).Draw(r, "rules") {
	case 0:
		p.Spread = []Spread{spread(rapid.IntRange(1, 2).Draw(r, "skew"))}
	case 1:
		p.Apart = []Rule{rule()}
	case 2:
		p.Near = []Rule{rule()}
	case 3:
		p.Near = []Rule{rule(), rule()}
	case 4:
		p.Spread = []Spread{spread(1), spread(2)}
		p.Apart = []Rule{rule()}
	}
}

// allowed is Kubernetes' result, rule by rule and pod by pod.
func allowed(s Snapshot, p *Pod, n *Node) bool {
	same := func(q Pod, key string) bool { // q runs where key has the node's value
		value, ok := n.Labels[key]
		at := nodeOf(s, q)
		return ok && at != nil && at.Labels[key] == value
	}
	for _, q := range s.Pods {
		for _, a := range p.Apart {
			if slices.Contains(q.Groups, a.Group) && same(q, a.Key) {
				return false
			}
		}
		for _, a := range q.Apart { // running pods exclude others too
			if slices.Contains(p.Groups, a.Group) && same(q, a.Key) {
				return false
			}
		}
	}
	return nearHolds(s, p, n, same) && spreadHolds(s, p, n)
}

func nodeOf(s Snapshot, q Pod) *Node {
	i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == q.Node })
	if i < 0 {
		return nil
	}
	return &s.Nodes[i]
}

// nearHolds: every term matches, in its place, a pod that all terms select.
// Where there is none in any place of any term, a pod that they select itself
// may be first.
func nearHolds(s Snapshot, p *Pod, n *Node, same func(Pod, string) bool) bool {
	selected := func(q Pod) bool {
		return !slices.ContainsFunc(p.Near, func(r Rule) bool { return !slices.Contains(q.Groups, r.Group) })
	}
	missing, anywhere := false, false
	for _, r := range p.Near {
		if _, ok := n.Labels[r.Key]; !ok {
			return false
		}
		found := false
		for _, q := range s.Pods {
			if at := nodeOf(s, q); at != nil && selected(q) {
				found = found || same(q, r.Key)
				_, has := at.Labels[r.Key]
				anywhere = anywhere || has
			}
		}
		missing = missing || !found
	}
	return !missing || !anywhere && selected(*p)
}

// spreadHolds: with the pod, the place has at most MaxSkew more of the group
// than the place with the fewest, or than none where there are fewer than
// MinDomains. Nodes without all the keys are no place, nor those that its selector
// excludes or, with HonorTaints, its tolerations.
func spreadHolds(s Snapshot, p *Pod, n *Node) bool {
	for _, c := range p.Spread {
		value, ok := n.Labels[c.Key]
		if !ok {
			return false
		}
		counts := map[string]int{}
		for _, m := range s.Nodes {
			all := !slices.ContainsFunc(p.Spread, func(d Spread) bool { return m.Labels[d.Key] == "" })
			all = all && (c.IgnoreAffinity || p.NodeSelector == nil || m.Labels["kind"] == "x")
			all = all && !(c.HonorTaints && (len(m.Taints) > 0 || !m.Ready || m.Cordoned))
			if v := m.Labels[c.Key]; all {
				counts[v] += 0
			}
		}
		here := 0
		for _, q := range s.Pods {
			at := nodeOf(s, q)
			if at == nil || !slices.Contains(q.Groups, c.Group) || at.Labels[c.Key] == "" {
				continue
			}
			if _, place := counts[at.Labels[c.Key]]; place {
				counts[at.Labels[c.Key]]++
			}
			if at.Labels[c.Key] == value {
				here++
			}
		}
		least := -1
		for _, c := range counts {
			if least < 0 || c < least {
				least = c
			}
		}
		if len(counts) < c.MinDomains {
			least = 0
		}
		if slices.Contains(p.Groups, c.Group) {
			here++
		}
		if here-max(least, 0) > max(c.MaxSkew, 1) {
			return false
		}
	}
	return true
}
