package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestMeanings evaluates the queries with Prometheus' own engine: testdata/queries.txt.
//
//	series                  of a healthy installation: prints what the queries give
//	with without=(NAME,…)   more series, or without some: prints what is different
//	match                   the same with matchers in every selector
func TestMeanings(t *testing.T) {
	var healthy string
	var usual []string
	datadriven.RunTest(t, "testdata/queries.txt", func(t *testing.T, d *datadriven.TestData) string {
		series, match := healthy, ""
		switch d.Cmd {
		case "series":
			healthy = d.Input + "\n"
			usual = given(t, healthy, "")
			return strings.Join(usual, "\n") + "\n"
		case "match":
			match = d.Input
		case "with":
			for _, a := range d.CmdArgs {
				for _, name := range a.Vals {
					series = strings.Join(slices.DeleteFunc(strings.SplitAfter(series, "\n"), func(line string) bool { return strings.HasPrefix(line, name+"{") }), "")
				}
			}
			series += d.Input + "\n"
		default:
			d.Fatalf(t, "unknown command %s", d.Cmd)
		}
		got := given(t, series, match)
		var out strings.Builder
		for sign, lists := range map[string][2][]string{"-": {usual, got}, "+": {got, usual}} {
			for _, line := range lists[0] {
				if !slices.Contains(lists[1], line) {
					fmt.Fprintf(&out, "%s %s\n", sign, line)
				}
			}
		}
		return strings.Join(slices.Sorted(strings.SplitAfterSeq(out.String(), "\n")), "")
	})
}

// given is what the queries that read series give, a line for each sample.
func given(t *testing.T, series, match string) (lines []string) {
	t.Helper()
	recorded, err := memstore.Read(series, memstore.From(now, time.Minute))
	require.NoError(t, err)
	for _, s := range Table {
		if !strings.Contains(s.Query, "$") {
			continue
		}
		v, err := memstore.Query(t.Context(), engine, recorded, Written(s.Query, match), now.Add(20*time.Minute))
		require.NoError(t, err)
		for _, one := range v {
			lines = append(lines, fmt.Sprintf("%s: %s %g", strings.TrimPrefix(s.Name, "prometheus: "), one.Labels, one.Value))
		}
	}
	return lines
}

var engine = memstore.NewEngine(nil)

// Every query parses, with and without matchers, and the matchers are in every selector.
func TestQuestions(t *testing.T) {
	for _, d := range Table {
		if d.Query == "" || d == Retention {
			continue
		}
		for _, match := range []string{"", `cluster="a",env!~"x|y"`} {
			text := Written(d.Query, match)
			e, err := parser.NewParser(parser.Options{}).ParseExpr(text)
			if err != nil {
				t.Errorf("%s: %v in %s", d.Name, err, text)
				continue
			}
			parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
				if v, ok := n.(*parser.VectorSelector); ok && match != "" {
					has := false
					for _, m := range v.LabelMatchers {
						has = has || m.Name == "cluster" && m.Value == "a"
					}
					if !has {
						t.Errorf("%s: %s is not matched", d.Name, v)
					}
				}
				return nil
			})
		}
	}
}
