// Package sources restricts PromQL to the series of trusted scrape targets. Any pod that Prometheus scrapes
// can expose a series of any name. Without this restriction, an alert or a rule would believe every tenant's
// page.
package sources

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/trust"
)

// Namespaces is a regular expression of the namespaces whose targets the committed files trust: the namespace
// that the documentation installs into. The chart replaces Matcher by its own matcher.
const Namespaces = "gpuscale-system"

// Matcher selects the targets of Namespaces.
var Matcher = Match([]string{Namespaces})

// Match returns the matcher for targets in the given namespaces; "*" matches every target.
func Match(namespaces []string) string {
	if slices.Contains(namespaces, "*") {
		return metric.LabelNamespace + `=~".*"`
	}
	return metric.LabelNamespace + "=~" + strconv.Quote(strings.Join(namespaces, "|"))
}

// edit inserts text into an expression at a byte offset.
type edit struct {
	at   int
	text string
}

// Trusted restricts every selector of our series, and of up, to targets that the matcher selects. Other
// series stay as they are.
//
// Many series of an exporter have the namespace of a pod. With honor_labels this replaces the target's label
// "namespace". Such a series counts only if its target (job and instance) also has the program's witness
// series in a trusted namespace. In a range, one sample of the witness anywhere is enough, since the last
// scrape may have failed. A target without honor_labels cannot set its job, instance or namespace.
func Trusted(expr, matcher string) (string, error) {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return "", fmt.Errorf("%s: %w", expr, err)
	}
	var edits []edit
	parser.Inspect(tree, func(n parser.Node, path []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		owner, moves, ok := family(s.Name)
		if !ok {
			return nil
		}
		if !moves {
			edits = append(edits, within(expr, s, matcher))
			return nil
		}
		witness, ok := trust.Witness[owner]
		if !ok {
			err = fmt.Errorf("%s: no witness of a target of %s is known", s.Name, owner)
		}
		node, over := labelled(s, path)
		if witness += "{" + matcher + "}"; over != nil {
			witness = "present_over_time(" + witness + expr[s.PosRange.End:over.EndPos] + ")"
		}
		whole := node.PositionRange()
		edits = append(edits, edit{int(whole.Start), "("}, edit{int(whole.End), " and on (cluster, job, instance) " + witness + ")"})
		return nil
	})
	if err != nil {
		return "", err
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return a.at - b.at })
	var b strings.Builder
	from := 0
	for _, e := range edits {
		b.WriteString(expr[from:e.at] + e.text)
		from = e.at
	}
	return b.String() + expr[from:], nil
}

// family is trust.Family, extended by Prometheus' own series and DCGM's names.
func family(name string) (owner metric.Owner, moves, ok bool) {
	switch {
	case name == "up":
		return "", false, true
	case strings.HasPrefix(name, "DCGM_"):
		return metric.Exporter, true, true
	}
	return trust.Family(name)
}

// within inserts the matcher into a selector.
func within(expr string, s *parser.VectorSelector, matcher string) edit {
	at := int(s.PosRange.Start) + len(s.Name)
	rest := strings.TrimLeft(expr[at:], " ")
	if !strings.HasPrefix(rest, "{") {
		return edit{at, "{" + matcher + "}"}
	}
	brace := at + len(expr[at:]) - len(rest) + 1
	if !strings.HasPrefix(strings.TrimLeft(rest[1:], " "), "}") {
		matcher += ","
	}
	return edit{brace, matcher}
}

// labelled returns the smallest expression around a selector that is an instant vector with the series'
// labels: the selector itself, or the function call over its range. It also returns that range.
func labelled(s *parser.VectorSelector, path []parser.Node) (whole parser.Node, over *parser.MatrixSelector) {
	if len(path) >= 2 {
		if m, ranged := path[len(path)-1].(*parser.MatrixSelector); ranged {
			return path[len(path)-2], m
		}
	}
	return s, nil
}

// LabelCluster is a label that users with several clusters add.
const LabelCluster = "cluster"

// On returns a label list for on (…) or by (…), with the cluster first.
func On(labels ...string) string {
	return strings.Join(append([]string{LabelCluster}, labels...), ", ")
}

// By aggregates by cluster and labels.
func By(op, expr string, labels ...string) string {
	return fmt.Sprintf("%s by (%s) (%s)", op, On(labels...), expr)
}

// Own restores labels that Prometheus moved to exported_* because it scrapes without honor_labels.
func Own(expr string, labels ...string) string {
	for _, l := range labels {
		expr = fmt.Sprintf("label_replace(%s, %q, \"$1\", %q, \"(.+)\")", expr, l, metric.Exported+l)
	}
	return expr
}
