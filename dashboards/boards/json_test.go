package boards_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
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

// drawn has the fields of a panel that decide what Grafana draws.
type drawn struct {
	Type, Title string
	GridPos     struct{ W int }
	FieldConfig struct {
		Defaults struct {
			Min      *float64
			Mappings []struct {
				Type    string
				Options struct{ Result struct{ Color string } }
			}
			Custom struct{ MinWidth int }
		}
		Overrides []struct {
			Matcher    struct{ Options string }
			Properties []struct {
				ID    string
				Value any
			}
		}
	}
	Options struct {
		WideLayout bool
		SortBy     []struct {
			DisplayName string
			Desc        bool
		}
	}
}

// TestWhatGrafanaDraws checks what Grafana's own components (@grafana/ui 13.2.3) draw badly by default. Columns are at
// least 150 pixels wide, and those that do not fit are out of sight. A bar begins at the smallest value. The name and
// the value of a wide figure are at its two ends, beside those of its neighbours. Rows of a table are in the order of
// Prometheus, which has none.
func TestWhatGrafanaDraws(t *testing.T) {
	const window, gap = 1280, 8
	for _, b := range boards.All() {
		text, err := board.JSON(b)
		require.NoError(t, err)
		var read struct{ Panels []drawn }
		require.NoError(t, json.Unmarshal(text, &read))
		for i, at := range b.Layout() {
			if at.Panel == nil {
				continue
			}
			p, d := *at.Panel, read.Panels[i]
			switch {
			case p.Kind == board.Bars && (d.FieldConfig.Defaults.Min == nil || *d.FieldConfig.Defaults.Min != 0):
				t.Errorf("%s, %s: bars do not begin at 0", b.UID, p.Title)
			case p.Kind == board.Stat && d.Options.WideLayout:
				t.Errorf("%s, %s: names are not above their values", b.UID, p.Title)
			}
			if p.Kind != board.Table {
				continue
			}
			if needed, pixels := widthOf(p, d), (window-4*gap)*d.GridPos.W/24-3*gap; needed > pixels {
				t.Errorf("%s, %s: columns need %d pixels of %d", b.UID, p.Title, needed, pixels)
			}
			const title, wide = 7, 1600 // pixels of a letter, and of a window in which no title is truncated
			own := ownWidths(d)
			pixels, auto := (wide-4*gap)*d.GridPos.W/24-3*gap, 0
			for _, c := range p.Columns {
				if pixels -= own[c.Title]; own[c.Title] == 0 {
					auto++
				}
			}
			for _, c := range p.Columns {
				if own[c.Title] == 0 && len(c.Title)*title+12 > pixels/auto {
					t.Errorf("%s, %s: %s has %d pixels", b.UID, p.Title, c.Title, pixels/auto)
				}
			}
			var by []string
			for _, c := range p.Columns {
				if c.Sort {
					by = append([]string{c.Title}, by...)
				} else if c.Label != "" || p.Matrix != nil {
					by = append(by, c.Title)
				}
			}
			var sorted []string
			for _, s := range d.Options.SortBy {
				sorted = append(sorted, s.DisplayName)
			}
			if !slices.Equal(sorted, by) {
				t.Errorf("%s, %s: sorted by %q, want %q", b.UID, p.Title, sorted, by)
			}
		}
	}
}

// widthOf is the least width of a table's columns.
func widthOf(p board.Panel, d drawn) (pixels int) {
	least, own := cmp.Or(d.FieldConfig.Defaults.Custom.MinWidth, 150), ownWidths(d)
	for _, c := range p.Columns {
		pixels += cmp.Or(own[c.Title], least)
	}
	if p.Matrix != nil {
		pixels += 8 * cmp.Or(own["/^[0-9]+$/"], least)
	}
	return pixels
}

// ownWidths are those of columns that have one.
func ownWidths(d drawn) map[string]int {
	own := map[string]int{}
	for _, o := range d.FieldConfig.Overrides {
		for _, one := range o.Properties {
			if one.ID == "custom.width" {
				own[o.Matcher.Options] = int(one.Value.(float64))
			}
		}
	}
	return own
}

// TestVariablesNarrow: a panel that names pools, tenants and so on shows those that are chosen.
func TestVariablesNarrow(t *testing.T) {
	for _, b := range boards.All() {
		for _, at := range b.Layout() {
			if at.Panel == nil {
				continue
			}
			for _, v := range b.Vars {
				named := slices.ContainsFunc(at.Panel.Columns, func(c board.Column) bool { return c.Label == v.Label && v.Label != "" })
				for _, q := range at.Panel.Queries {
					if (named || strings.Contains(q.Legend, "{{"+v.Label+"}}")) && !strings.Contains(q.Expr, `"$`+v.Name+`"`) {
						t.Errorf("%s, %s: the variable %s chooses nothing in %s", b.UID, at.Panel.Title, v.Name, q.Expr)
					}
				}
			}
		}
	}
}
