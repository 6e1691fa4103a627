// Package sources restricts PromQL to the series of trusted scrape targets. Any pod that Prometheus
// scrapes can expose a series of any name, so an alert or a rule that names a family alone believes
// every tenant's page.
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

// Namespaces is the matcher's regular expression of the namespaces whose targets are trusted, as the
// committed files have it: the one that the documentation installs to. The chart replaces Matcher by
// one of its own.
const Namespaces = "gpuscale-system"

// Matcher selects the targets of Namespaces.
var Matcher = Match([]string{Namespaces})

// Match returns the matcher of targets in any of the namespaces; "*" stands for every target.
func Match(namespaces []string) string {
	if slices.Contains(namespaces, "*") {
		return metric.LabelNamespace + `=~".*"`
	}
	return metric.LabelNamespace + "=~" + strconv.Quote(strings.Join(namespaces, "|"))
}

// edit is text put into an expression before a byte.
type edit struct {
	at   int
	text string
}

// Trusted returns the expression with every selector of a family of ours, and of up, restricted to
// targets that matcher selects. Other families stay as they are.
//
// The page of an exporter gives many series the namespace of a pod. With honor_labels that is the
// label namespace, so that the target's is lost: such a series counts if its target (job and
// instance) also has the program's witness in a trusted namespace, and over a range anywhere within
// it: the last scrape may have failed. A target without honor_labels cannot set its job, instance or
// namespace.
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

// family is trust.Family, of Prometheus' own series and of DCGM's names too.
func family(name string) (owner metric.Owner, moves, ok bool) {
	switch {
	case name == "up":
		return "", false, true
	case strings.HasPrefix(name, "DCGM_"):
		return metric.Exporter, true, true
	}
	return trust.Family(name)
}

// within puts the matcher into a selector.
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

// labelled is the smallest expression around a selector that is an instant vector with its labels: the
// selector itself, or the call over its range, which it returns too.
func labelled(s *parser.VectorSelector, path []parser.Node) (whole parser.Node, over *parser.MatrixSelector) {
	if len(path) >= 2 {
		if m, ranged := path[len(path)-1].(*parser.MatrixSelector); ranged {
			return path[len(path)-2], m
		}
	}
	return s, nil
}

// LabelCluster is added by users with several clusters.
const LabelCluster = "cluster"

// On writes labels that identify something, the cluster's first.
func On(labels ...string) string {
	return strings.Join(append([]string{LabelCluster}, labels...), ", ")
}

// By aggregates by cluster and some labels.
func By(op, expr string, labels ...string) string {
	return fmt.Sprintf("%s by (%s) (%s)", op, On(labels...), expr)
}

// Own restores the labels that Prometheus moved to exported_*, where it scrapes without
// honor_labels.
func Own(expr string, labels ...string) string {
	for _, l := range labels {
		expr = fmt.Sprintf("label_replace(%s, %q, \"$1\", %q, \"(.+)\")", expr, l, metric.Exported+l)
	}
	return expr
}
