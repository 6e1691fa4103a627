package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

// resourceFields is others=(rdma/hca=2 …).
func resourceFields(x *fields, v *[]plan.Resource) {
	list(x, "others", v, func(o plan.Resource) string { return quote(o.Name) + "=" + strconv.FormatInt(o.Amount, 10) }, func(it item) (plan.Resource, error) {
		if len(it) != 1 || !it[0].isSet {
			return plan.Resource{}, fmt.Errorf("want name=amount")
		}
		n, err := strconv.ParseInt(it[0].value, 10, 64)
		return plan.Resource{Name: it[0].name, Amount: n}, err
	})
}

// portFields is host-ports=(TCP/8080 UDP/53/10.0.0.1 …).
func portFields(x *fields, v *[]plan.HostPort) {
	list(x, "host-ports", v, func(h plan.HostPort) string { return quote(h.String()) }, func(it item) (plan.HostPort, error) {
		parts := strings.SplitN(it[0].name, "/", 3)
		if len(it) != 1 || len(parts) < 2 {
			return plan.HostPort{}, fmt.Errorf("a host port is PROTOCOL/PORT or PROTOCOL/PORT/IP")
		}
		port, err := strconv.ParseUint(parts[1], 10, 16)
		h := plan.HostPort{Protocol: parts[0], Port: int(port)}
		if len(parts) == 3 {
			h.IP = parts[2]
		}
		return h, err
	})
}

// ruleFields is groups=(GROUP …) spread=(KEY:group=GROUP:skew=1 …)
// apart=(KEY:group=GROUP:except=GROUP …) near=(KEY:group=GROUP …).
func ruleFields(x *fields, p *plan.Pod) {
	x.names("groups", &p.Groups)
	parts(x, "spread", &p.Spread, func(s plan.Spread) string { return quote(s.Key) }, func(s segment) (plan.Spread, error) {
		return plan.Spread{Rule: plan.Rule{Key: s.name}, MaxSkew: 1}, nil
	}, func(x *fields, s *plan.Spread) {
		groupField(x, &s.Rule)
		x.count("skew", &s.MaxSkew)
		x.int("min-domains", &s.MinDomains)
		x.flag("ignore-affinity", &s.IgnoreAffinity)
		x.flag("honor-taints", &s.HonorTaints)
	})
	parts(x, "apart", &p.Apart, func(a plan.Apart) string { return quote(a.Key) }, func(s segment) (plan.Apart, error) {
		return plan.Apart{Rule: plan.Rule{Key: s.name}}, nil
	}, func(x *fields, a *plan.Apart) {
		groupField(x, &a.Rule)
		x.string("except", &a.Except)
	})
	parts(x, "near", &p.Near, func(r plan.Rule) string { return quote(r.Key) }, func(s segment) (plan.Rule, error) {
		return plan.Rule{Key: s.name}, nil
	}, groupField)
}

func groupField(x *fields, r *plan.Rule) {
	if x.string("group", &r.Group); x.out == nil && r.Group == "" {
		x.fail("group", "want one: a rule is label:group=NAME")
	}
}

func (x *fields) labels(key string, v *map[string]string) {
	m := map[string]string{}
	if x.items(key, func() (words []string) {
		for _, k := range slices.Sorted(maps.Keys(*v)) {
			words = append(words, pairText(k, (*v)[k]))
		}
		return words
	}, func(it item) error { m[it[0].name] = it[0].value; return nil }) {
		*v = m
		if len(m) == 0 {
			*v = nil
		}
	}
}

func pairText(k, v string) string {
	if v == "" {
		return quote(k)
	}
	return quote(k) + "=" + quote(v)
}

// taintFields is taints=(key=value:NoSchedule …).
func taintFields(x *fields, v *[]plan.Taint) {
	list(x, "taints", v, func(t plan.Taint) string { return pairText(t.Key, t.Value) + ":" + quote(t.Effect) }, func(it item) (plan.Taint, error) {
		if len(it) != 2 {
			return plan.Taint{}, fmt.Errorf("a taint is key=value:effect")
		}
		return plan.Taint{Key: it[0].name, Value: it[0].value, Effect: it[1].name}, nil
	})
}

// tolerationFields is tolerations=(key=value:op=Exists:effect=NoSchedule …).
func tolerationFields(x *fields, v *[]plan.Toleration) {
	parts(x, "tolerations", v, func(t plan.Toleration) string { return pairText(t.Key, t.Value) }, func(s segment) (plan.Toleration, error) {
		return plan.Toleration{Key: s.name, Value: s.value}, nil
	}, func(x *fields, t *plan.Toleration) {
		x.string("op", &t.Operator)
		x.string("effect", &t.Effect)
	})
}

// affinityFields is affinity=(key:In:a:b key2:Exists | key:NotIn:c): "|" separates
// terms of which any may match.
func affinityFields(x *fields, v *[]plan.NodeTerm) {
	var out []plan.NodeTerm
	if x.items("affinity", func() []string { return termWords(*v) }, func(it item) error { return readTerm(it, &out) }) {
		*v = out
	}
}

// volumeFields is volumes=(key:In:a | key:In:b & key2:Exists): "&" separates
// volumes, of each of which a term must match.
func volumeFields(x *fields, v *[][]plan.NodeTerm) {
	var out [][]plan.NodeTerm
	if x.items("volumes", func() (words []string) {
		for i, terms := range *v {
			if i > 0 || len(terms) == 0 {
				words = append(words, "&")
			}
			words = append(words, termWords(terms)...)
		}
		return words
	}, func(it item) error {
		if len(it) == 1 && it[0].name == "&" {
			out = append(out, nil)
			return nil
		}
		if len(out) == 0 {
			out = append(out, nil)
		}
		return readTerm(it, &out[len(out)-1])
	}) {
		*v = out
	}
}

// readTerm adds a requirement to the last of the terms, or begins a term.
func readTerm(it item, out *[]plan.NodeTerm) error {
	if len(it) == 1 && it[0].name == "|" {
		*out = append(*out, nil)
		return nil
	}
	if len(it) < 2 {
		return fmt.Errorf("a requirement is key:operator:value…")
	}
	if len(*out) == 0 {
		*out = append(*out, nil)
	}
	q := plan.NodeRequirement{Key: it[0].name, Operator: it[1].name}
	for _, s := range it[2:] {
		q.Values = append(q.Values, s.name)
	}
	last := &(*out)[len(*out)-1]
	*last = append(*last, q)
	return nil
}

func termWords(terms []plan.NodeTerm) (words []string) {
	for i, t := range terms {
		if i > 0 || len(t) == 0 {
			words = append(words, "|")
		}
		for _, q := range t {
			word := quote(q.Key) + ":" + quote(q.Operator)
			for _, v := range q.Values {
				word += ":" + quote(v)
			}
			words = append(words, word)
		}
	}
	return words
}
