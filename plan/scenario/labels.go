package scenario

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gpuscale/gpuscale/plan"
)

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
