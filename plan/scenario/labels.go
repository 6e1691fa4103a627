package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

func readLabels(r *reader, key string, v *map[string]string) {
	m := map[string]string{}
	if r.items(key, func(it item) error { m[it[0].name] = it[0].value; return nil }) {
		*v = m
		if len(m) == 0 {
			*v = nil
		}
	}
}

func labelsText(key string, m map[string]string) string {
	if len(m) == 0 {
		return ""
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for i, k := range keys {
		keys[i] = pairText(k, m[k])
	}
	return " " + key + "=(" + strings.Join(keys, " ") + ")"
}

func pairText(k, v string) string {
	if v == "" {
		return quote(k)
	}
	return quote(k) + "=" + quote(v)
}

// readTaints reads taints=(key=value:NoSchedule …).
func readTaints(r *reader, v *[]plan.Taint) {
	var out []plan.Taint
	if r.items("taints", func(it item) error {
		if len(it) != 2 {
			return fmt.Errorf("a taint is key=value:effect")
		}
		out = append(out, plan.Taint{Key: it[0].name, Value: it[0].value, Effect: it[1].name})
		return nil
	}) {
		*v = out
	}
}

func taintsText(taints []plan.Taint) string {
	if len(taints) == 0 {
		return ""
	}
	words := make([]string, len(taints))
	for i, t := range taints {
		words[i] = pairText(t.Key, t.Value) + ":" + quote(t.Effect)
	}
	return " taints=(" + strings.Join(words, " ") + ")"
}

// readTolerations reads tolerations=(key=value:effect=NoSchedule:op=Exists …).
func readTolerations(r *reader, v *[]plan.Toleration) {
	var out []plan.Toleration
	if r.items("tolerations", func(it item) error {
		t := plan.Toleration{Key: it[0].name, Value: it[0].value}
		for _, s := range it[1:] {
			switch s.name {
			case "op":
				t.Operator = s.value
			case "effect":
				t.Effect = s.value
			default:
				return fmt.Errorf("%q: a toleration is key=value:op=Exists:effect=NoSchedule", s.name)
			}
		}
		out = append(out, t)
		return nil
	}) {
		*v = out
	}
}

func tolerationsText(tolerations []plan.Toleration) string {
	if len(tolerations) == 0 {
		return ""
	}
	words := make([]string, len(tolerations))
	for i, t := range tolerations {
		words[i] = pairText(t.Key, t.Value)
		if t.Operator != "" {
			words[i] += ":op=" + quote(t.Operator)
		}
		if t.Effect != "" {
			words[i] += ":effect=" + quote(t.Effect)
		}
	}
	return " tolerations=(" + strings.Join(words, " ") + ")"
}

// readAffinity reads affinity=(key:In:a:b key2:Exists | key:NotIn:c): "|"
// separates terms of which any may match.
func readAffinity(r *reader, v *[]plan.NodeTerm) {
	var out []plan.NodeTerm
	if r.items("affinity", func(it item) error { return readTerm(it, &out) }) {
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

// readVolumes reads volumes=(key:In:a | key:In:b & key2:Exists): "&" separates
// volumes, of each of which a term must match.
func readVolumes(r *reader, v *[][]plan.NodeTerm) {
	var out [][]plan.NodeTerm
	if r.items("volumes", func(it item) error {
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

func affinityText(terms []plan.NodeTerm) string {
	if len(terms) == 0 {
		return ""
	}
	return " affinity=(" + strings.Join(termWords(terms), " ") + ")"
}

func volumesText(volumes [][]plan.NodeTerm) string {
	if len(volumes) == 0 {
		return ""
	}
	var words []string
	for i, terms := range volumes {
		if i > 0 || len(terms) == 0 {
			words = append(words, "&")
		}
		words = append(words, termWords(terms)...)
	}
	return " volumes=(" + strings.Join(words, " ") + ")"
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
