package boards_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/internal/require"
)

// strict reads a board by Grafana's own schema: an unknown field, a missing one or a value
// outside it is an error. Titles of annotations, which the schema does not know and Grafana
// does, are taken out first.
func strict(text []byte) (dashboard.Dashboard, error) {
	r := cog.NewRuntime()
	for _, config := range []func() variants.PanelcfgConfig{stat.VariantConfig, timeseries.VariantConfig, bargauge.VariantConfig, table.VariantConfig, statetimeline.VariantConfig} {
		r.RegisterPanelcfgVariant(config())
	}
	r.RegisterDataqueryVariant(prometheus.VariantConfig())
	var d dashboard.Dashboard
	var plain map[string]any
	if err := json.Unmarshal(text, &plain); err != nil {
		return d, err
	}
	for _, one := range plain["annotations"].(map[string]any)["list"].([]any) {
		delete(one.(map[string]any), "titleFormat")
	}
	rest, err := json.Marshal(plain)
	if err != nil {
		return d, err
	}
	if err := d.UnmarshalJSONStrict(rest); err != nil {
		return d, err
	}
	return d, d.Validate()
}

// Every board is within Grafana's schema, and the schema refuses what is not.
func TestBoardsAreWithinTheSchema(t *testing.T) {
	for _, b := range boards.All() {
		text, err := board.JSON(b)
		require.NoError(t, err)
		d, err := strict(text)
		if err != nil || *d.Uid != b.UID || len(d.Panels) != len(b.Layout()) || len(d.Templating.List) != len(b.Vars) || *d.Editable {
			t.Errorf("%s: %v, or it was not read back whole", b.UID, err)
		}
		for _, p := range d.Panels { // the schema reads any text as one of its words
			if p.Panel != nil && (p.Panel.Type == "stat" && p.Panel.Options.(*stat.Options).Orientation != common.VizOrientationAuto ||
				len(p.Panel.Transformations) > 0 && p.Panel.Transformations[0].Id == "groupingToMatrix") {
				t.Errorf("%s, %s: it has no orientation of Grafana's, or its columns are in no order", b.UID, *p.Panel.Title)
			}
		}
		if b.UID != boards.OverviewUID {
			continue
		}
		for _, change := range [][2]string{
			{`"schemaVersion"`, `"schemaVersions"`},
			{`"graphMode"`, `"graphModes"`},
			{`"expr"`, `"expression"`},
			{`"title": "GPUs"`, `"title": 7`},
		} {
			broken := bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1)
			if _, err := strict(broken); err == nil {
				t.Errorf("%s in place of %s was accepted, or is not there", change[1], change[0])
			}
		}
	}
}
