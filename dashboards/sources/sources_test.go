package sources_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/sources"
)

func TestTrusted(t *testing.T) {
	datadriven.RunTest(t, "testdata/trusted.txt", func(t *testing.T, d *datadriven.TestData) string {
		got, err := sources.Trusted(d.Input, `namespace=~"a|b"`)
		if err != nil {
			return "error\n"
		}
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(got); err != nil {
			t.Errorf("%s: %v", d.Input, err)
		}
		return got + "\n"
	})
}
