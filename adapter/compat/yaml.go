package compat

import (
	"iter"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// resolve follows an alias. YAML has no aliases of aliases.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// pairs yields a mapping's keys and values in the file's order, those of a merge
// key (<<) included.
func pairs(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			if key.Tag == "!!merge" {
				continue // decoding merges, and checks the fields' types
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

// find returns the node at a path below n, or the deepest one on that path. A
// path element like "seriesFilters[2]" indexes a list.
func find(n *yaml.Node, path []string) *yaml.Node {
	for _, element := range path {
		name, index := element, -1
		if open := len(element) - 3; open > 0 && element[len(element)-1] == ']' {
			for open > 0 && element[open] != '[' {
				open--
			}
			if i, err := strconv.Atoi(element[open+1 : len(element)-1]); err == nil {
				name, index = element[:open], i
			}
		}
		next := child(resolve(n), name)
		if next == nil {
			return n
		}
		if index >= 0 && next.Kind == yaml.SequenceNode && index < len(next.Content) {
			next = resolve(next.Content[index])
		}
		n = next
	}
	return n
}

func child(n *yaml.Node, name string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for key, value := range pairs(n) {
		if key.Value == name {
			return resolve(value)
		}
	}
	return nil
}
