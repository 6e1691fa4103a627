package main

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

const readmeHead = `# The gpuscale chart

<!-- Written from values.yaml by make chart-generate. -->

    helm install gpuscale deploy/chart/gpuscale --namespace gpuscale-system --create-namespace --values mine.yaml

What to put into mine.yaml first, what each program may do and why, and what an upgrade keeps: [docs/install.md](../../../docs/install.md)
and [the design note](../../../docs/design/008-install.md).
`

// readme is a table for each top key.
func readme(values []value) []byte {
	var b strings.Builder
	b.WriteString(readmeHead)
	var single []value
	for _, v := range values {
		if v.children == nil {
			single = append(single, v)
		}
	}
	b.WriteString("\n## Values\n\n")
	table(&b, single)
	for _, v := range values {
		if v.children == nil {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n", v.key)
		if v.help != "" {
			fmt.Fprintf(&b, "%s\n\n", v.help)
		}
		table(&b, leaves(v.children))
	}
	return []byte(b.String())
}

// leaves are the values below that can be set one by one. An object's own words
// go to its first field, which would else have none.
func leaves(values []value) []value {
	var out []value
	for _, v := range values {
		if v.children == nil {
			out = append(out, v)
			continue
		}
		below := leaves(v.children)
		if len(below) > 0 {
			below[0].help = strings.TrimSpace(v.help + " " + below[0].help)
		}
		out = append(out, below...)
	}
	return out
}

func table(b *strings.Builder, values []value) {
	b.WriteString("| key | default | |\n|---|---|---|\n")
	for _, v := range values {
		help := v.help
		if v.enum != nil {
			help = strings.TrimSpace("`" + strings.Join(v.enum, "`, `") + "`. " + help)
		}
		fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", v.path, strings.ReplaceAll(flow(v.node), "|", "\\|"), strings.ReplaceAll(help, "|", "\\|"))
	}
}

// flow writes a default on one line.
func flow(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		var parts []string
		for i := 0; i+1 < len(n.Content); i += 2 {
			parts = append(parts, n.Content[i].Value+": "+flow(n.Content[i+1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		var parts []string
		for _, c := range n.Content {
			parts = append(parts, flow(c))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if n.Tag == "!!str" && (n.Style == yaml.DoubleQuotedStyle || n.Value == "") {
		return fmt.Sprintf("%q", n.Value)
	}
	return n.Value
}
