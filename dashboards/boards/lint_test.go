package boards_test

import (
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/gpuscale/gpuscale/dashboards/lint"
)

// No rule finds anything in the boards that are committed.
func TestLint(t *testing.T) {
	var all []dashboard.Dashboard
	for _, b := range committed() {
		all = append(all, b.d)
	}
	for _, p := range lint.Check(all...) {
		t.Error(p)
	}
}
