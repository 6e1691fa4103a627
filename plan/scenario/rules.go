package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

// resourceFields is others=(rdma/hca=2 …).
func resourceFields(x *fields, v *[]plan.Resource) {
	list(x, "others", v, func(x *fields, r *plan.Resource) {
		x.name(&r.Name)
		integer(x, r.Name, &r.Amount, false)
	})
}

// portFields is host-ports=(TCP/8080 UDP/53/10.0.0.1 …).
func portFields(x *fields, v *[]plan.HostPort) {
	list(x, "host-ports", v, func(x *fields, h *plan.HostPort) {
		x.head(h.String, func(s string) error {
			protocol, rest, ok := strings.Cut(s, "/")
			port, ip, _ := strings.Cut(rest, "/")
			if !ok {
				return fmt.Errorf("a host port is PROTOCOL/PORT or PROTOCOL/PORT/IP")
			}
			n, err := strconv.ParseUint(port, 10, 16)
			*h = plan.HostPort{Protocol: protocol, Port: int(n), IP: ip}
			return err
		})
	})
}

// ruleFields is groups=(GROUP …) spread=(KEY:group=GROUP:skew=1 …)
// apart=(KEY:group=GROUP:except=GROUP …) near=(KEY:group=GROUP …).
func ruleFields(x *fields, p *plan.Pod) {
	x.names("groups", &p.Groups)
	list(x, "spread", &p.Spread, func(x *fields, s *plan.Spread) {
		ruleEntry(x, &s.Rule)
		if x.out == nil {
			s.MaxSkew = 1
		}
		x.count("skew", &s.MaxSkew)
		x.int("min-domains", &s.MinDomains)
		x.flag("ignore-affinity", &s.IgnoreAffinity)
		x.flag("honor-taints", &s.HonorTaints)
	})
	list(x, "apart", &p.Apart, func(x *fields, a *plan.Apart) {
		ruleEntry(x, &a.Rule)
		x.string("except", &a.Except)
	})
	list(x, "near", &p.Near, ruleEntry)
}

func ruleEntry(x *fields, r *plan.Rule) {
	x.word(&r.Key)
	if x.string("group", &r.Group); x.out == nil && r.Group == "" {
		x.fail("group", "want one: a rule is label:group=NAME")
	}
}

// taintFields is taints=(key=value:NoSchedule …).
func taintFields(x *fields, v *[]plan.Taint) {
	list(x, "taints", v, func(x *fields, t *plan.Taint) {
		x.pair(&t.Key, &t.Value)
		x.word(&t.Effect)
	})
}

// beforeTerm is the mark before each term: any of the terms may match. beforeVolume is the mark
// before each volume: of every volume, one term must match. A list that begins with a
// requirement has no first mark.
const beforeTerm, beforeVolume = "|", "&"

// affinityFields is affinity=(key:In:a:b key2:Exists | key:NotIn:c).
func affinityFields(x *fields, v *[]plan.NodeTerm) {
	all := joined(*v, beforeTerm)
	if requirements(x, "affinity", beforeTerm, &all) {
		*v = parted[plan.NodeTerm](all, beforeTerm)
	}
}

// reachFields is volumes=(key:In:a | key:In:b & key2:Exists).
func reachFields(x *fields, key string, v *[][]plan.NodeTerm) {
	var volumes [][]plan.NodeRequirement
	for _, terms := range *v {
		volumes = append(volumes, joined(terms, beforeTerm))
	}
	all := joined(volumes, beforeVolume)
	if requirements(x, key, beforeTerm+beforeVolume, &all) {
		*v = nil
		for _, terms := range parted[[]plan.NodeRequirement](all, beforeVolume) {
			*v = append(*v, parted[plan.NodeTerm](terms, beforeTerm))
		}
	}
}

// requirements is a list of key:In:a:b, key:Exists and marks.
func requirements(x *fields, key, marks string, v *[]plan.NodeRequirement) bool {
	return list(x, key, v, func(x *fields, q *plan.NodeRequirement) {
		x.word(&q.Key)
		if x.out != nil && q.Operator == "" || x.out == nil && len(x.words) == 0 && len(q.Key) == 1 && strings.Contains(marks, q.Key) {
			return // a mark
		}
		x.word(&q.Operator)
		if x.out == nil && q.Operator == "" {
			x.fail(q.Key, "a requirement is key:operator:value…")
		}
		x.rest(&q.Values)
	})
}

// joined returns groups as one list, with a mark before each group. The first group has a mark
// only if it is empty.
func joined[G ~[]plan.NodeRequirement](groups []G, mark string) []plan.NodeRequirement {
	var all []plan.NodeRequirement
	for i, g := range groups {
		if i > 0 || len(g) == 0 {
			all = append(all, plan.NodeRequirement{Key: mark})
		}
		all = append(all, g...)
	}
	return all
}

// parted returns the groups of a list that joined has made.
func parted[G ~[]plan.NodeRequirement](all []plan.NodeRequirement, mark string) []G {
	var groups []G
	for _, q := range all {
		isMark := q.Key == mark && q.Operator == ""
		if isMark || len(groups) == 0 {
			groups = append(groups, nil)
		}
		if !isMark {
			groups[len(groups)-1] = append(groups[len(groups)-1], q)
		}
	}
	return groups
}
