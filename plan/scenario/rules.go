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
	list(x, "spread", &p.Spread, spreadText, func(it item) (plan.Spread, error) {
		s := plan.Spread{MaxSkew: 1}
		var err error
		s.Rule, err = readRule(it, &s)
		return s, err
	})
	alone := func(it item) (plan.Rule, error) { return readRule(it, nil) }
	list(x, "apart", &p.Apart, ruleText, alone)
	list(x, "near", &p.Near, ruleText, alone)
}

func spreadText(s plan.Spread) string {
	text := ruleText(s.Rule) + ":skew=" + strconv.Itoa(s.MaxSkew)
	if s.MinDomains != 0 {
		text += ":min-domains=" + strconv.Itoa(s.MinDomains)
	}
	if s.IgnoreAffinity {
		text += ":ignore-affinity"
	}
	if s.HonorTaints {
		text += ":honor-taints"
	}
	return text
}

// readRule reads a rule; of a spread what else it has, too.
func readRule(it item, spread *plan.Spread) (plan.Rule, error) {
	rule := plan.Rule{Key: it[0].name}
	for _, s := range it[1:] {
		var err error
		switch {
		case s.name == "group":
			rule.Group = s.value
		case s.name == "except" && spread == nil:
			rule.Except = s.value
		case spread == nil:
			return rule, fmt.Errorf("%q is no part of a rule: label:group=NAME:except=NAME", s.name)
		case s.name == "skew":
			spread.MaxSkew, err = strconv.Atoi(s.value)
		case s.name == "min-domains":
			spread.MinDomains, err = strconv.Atoi(s.value)
		case s.name == "ignore-affinity":
			spread.IgnoreAffinity = true
		case s.name == "honor-taints":
			spread.HonorTaints = true
		default:
			return rule, fmt.Errorf("%q is no part of a spread: label:group=NAME:skew=N:min-domains=N:ignore-affinity:honor-taints", s.name)
		}
		if err != nil {
			return rule, fmt.Errorf("%s: want a number: %q", s.name, s.value)
		}
	}
	if rule.Group == "" {
		return rule, fmt.Errorf("a rule is label:group=NAME")
	}
	return rule, nil
}

func ruleText(r plan.Rule) string {
	text := quote(r.Key) + ":group=" + quote(r.Group)
	if r.Except != "" {
		text += ":except=" + quote(r.Except)
	}
	return text
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

// tolerationFields is tolerations=(key=value:effect=NoSchedule:op=Exists …).
func tolerationFields(x *fields, v *[]plan.Toleration) {
	list(x, "tolerations", v, func(t plan.Toleration) string {
		word := pairText(t.Key, t.Value)
		if t.Operator != "" {
			word += ":op=" + quote(t.Operator)
		}
		if t.Effect != "" {
			word += ":effect=" + quote(t.Effect)
		}
		return word
	}, func(it item) (plan.Toleration, error) {
		t := plan.Toleration{Key: it[0].name, Value: it[0].value}
		for _, s := range it[1:] {
			switch s.name {
			case "op":
				t.Operator = s.value
			case "effect":
				t.Effect = s.value
			default:
				return t, fmt.Errorf("%q: a toleration is key=value:op=Exists:effect=NoSchedule", s.name)
			}
		}
		return t, nil
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
