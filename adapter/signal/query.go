package signal

import (
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// PartLabel is added to each series of an answer and names its part and source:
// "v0" is a value of source 0; "t0" the Unix time at which the newest sample in
// that value was scraped; "n0" the time of the evidence for what NaN means;
// "a0" the time of the evidence for what a missing series means.
const PartLabel = "gpuscale_part"

// Query returns the one PromQL expression that answers a rule for all
// namespaces. It joins the parts of all sources with `or`, distinguished by the
// part label. It is built as a syntax tree, so no name or matcher can inject
// PromQL.
func (r Rule) Query() string { return r.expression().String() }

// historyStep is the resolution of [Rule.History]. A series that lived shorter
// may be missed.
const historyStep = 30 * time.Second

// History returns the expression for a rule that starts or was idle: Query's
// answer, and the last sample of each series that ended within Forget. A table
// built from it knows the stale pods, as if it had run all the time. Without
// it, a sum right after a start would leave them out and be too low.
func (r Rule) History() string {
	past := &parser.SubqueryExpr{Expr: &parser.ParenExpr{Expr: r.expression()}, Range: Forget, Step: historyStep}
	return or(r.expression(), call("last_over_time", past)).String()
}

func (r Rule) expression() parser.Expr {
	var parts []parser.Expr
	for i, s := range r.Sources {
		n := strconv.Itoa(i)
		add := func(kind string, e parser.Expr) {
			if e != nil {
				parts = append(parts, part(kind+n, e))
			}
		}
		add("v", r.value(s))
		add("t", r.scrapeTime(s))
		add("n", r.idle(s))
		add("a", r.absent(s))
	}
	return anyPart(parts)
}

// anyPart joins with `or` as a balanced tree: each `or` hashes every series
// below it, so a chain of thirty would hash each thirty times.
func anyPart(parts []parser.Expr) parser.Expr {
	if len(parts) == 1 {
		return parts[0]
	}
	half := (len(parts) + 1) / 2
	return or(anyPart(parts[:half]), anyPart(parts[half:]))
}

func part(name string, e parser.Expr) parser.Expr {
	return call("label_replace", e, text(PartLabel), text(name), text(""), text(""))
}

func call(function string, args ...parser.Expr) parser.Expr {
	return &parser.Call{Func: parser.Functions[function], Args: args}
}

func text(s string) parser.Expr { return &parser.StringLiteral{Val: s} }

func number(v float64) parser.Expr { return &parser.NumberLiteral{Val: v} }

func or(a, b parser.Expr) parser.Expr { return set(parser.LOR, a, b) }

// set joins two vectors by their whole label sets. Chains associate to the
// left, so the right operand keeps its parentheses.
func set(op parser.ItemType, a, b parser.Expr) parser.Expr {
	if _, nested := b.(*parser.BinaryExpr); nested {
		b = &parser.ParenExpr{Expr: b}
	}
	return &parser.BinaryExpr{
		Op: op, LHS: a, RHS: b, VectorMatching: &parser.VectorMatching{Card: parser.CardManyToMany},
	}
}
