package partition

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// TableAnnotation on a Node has the MIG geometry of its GPUs, read by its agent: FormatTables
// writes it, ParseTables reads it.
const TableAnnotation = "gpuscale.io/mig-table"

// Bounds of the annotation. No node is known with more than two products, and a product's line is
// about a kilobyte.
const (
	maxTableBytes  = 64 << 10
	maxTableModels = 8
)

// FormatTables returns the annotation's value: a JSON list with one line for each product of the
// node, as mig.Spec.String renders it, in the given order.
func FormatTables(specs []mig.Spec) (string, error) {
	lines := make([]string, len(specs))
	for i, s := range specs {
		if _, err := mig.NewTable(s); err != nil {
			return "", err
		}
		lines[i] = s.String()
	}
	text, err := json.Marshal(lines)
	switch {
	case err != nil:
		return "", fmt.Errorf("writing MIG tables: %w", err)
	case len(specs) > maxTableModels || len(text) > maxTableBytes:
		return "", fmt.Errorf("writing MIG tables: %d products in %d bytes, at most %d in %d", len(specs), len(text), maxTableModels, maxTableBytes)
	}
	return string(text), nil
}

// ParseTables reads a node's annotation, nil for an empty one. Each result makes a table. The error
// names the wrong line.
func ParseTables(text string) ([]mig.Spec, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if len(text) > maxTableBytes {
		return nil, fmt.Errorf("annotation %s: %d bytes, at most %d", TableAnnotation, len(text), maxTableBytes)
	}
	var lines []string
	if err := json.Unmarshal([]byte(text), &lines); err != nil {
		return nil, fmt.Errorf("annotation %s: want a JSON list of strings: %w", TableAnnotation, err)
	}
	if len(lines) > maxTableModels {
		return nil, fmt.Errorf("annotation %s: %d products, at most %d", TableAnnotation, len(lines), maxTableModels)
	}
	var specs []mig.Spec
	for i, line := range lines {
		s, err := mig.ParseSpec(line)
		if err == nil {
			_, err = mig.NewTable(s)
		}
		if err != nil {
			return nil, fmt.Errorf("annotation %s: [%d]: %w", TableAnnotation, i, err)
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// Publication is one text that nodes have published, and one of those nodes.
type Publication struct{ Text, Node string }

// Publications are the distinct texts in the nodes' annotations, sorted.
func Publications(nodes []corev1.Node) []Publication {
	from := map[string]string{} // the first node with the text, by text
	for i := range nodes {
		if text := nodes[i].Annotations[TableAnnotation]; text != "" {
			if had, ok := from[text]; !ok || nodes[i].Name < had {
				from[text] = nodes[i].Name
			}
		}
	}
	out := make([]Publication, 0, len(from))
	for text, node := range from {
		out = append(out, Publication{Text: text, Node: node})
	}
	slices.SortFunc(out, func(a, b Publication) int { return strings.Compare(a.Text, b.Text) })
	return out
}

// TablesOf builds the tables of publications. The error names the node with the problem; the other
// tables hold.
func TablesOf(all []Publication) (mig.Tables, error) {
	var specs []mig.Spec
	var errs []error
	for _, p := range all {
		read, err := ParseTables(p.Text)
		if err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", p.Node, err))
		}
		for _, s := range read {
			if !slices.ContainsFunc(specs, func(had mig.Spec) bool { return had.String() == s.String() }) {
				specs = append(specs, s)
			}
		}
	}
	tables, err := mig.NewTables(specs...)
	return tables, errors.Join(append(errs, err)...)
}

// Published is what nodes have published of their GPUs' MIG geometry.
func Published(nodes []corev1.Node) (mig.Tables, error) { return TablesOf(Publications(nodes)) }
