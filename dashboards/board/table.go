package board

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// columns makes one table of a panel's queries: rows with the same labels are one
// row, columns that are not listed are left out, the others renamed and put in
// order.
func columns(build *dashboard.PanelBuilder, b Board, p Panel) {
	build.Options(tableOptions(p)).Custom(map[string]any{"align": "auto", "cellOptions": map[string]any{"type": "auto"}, "inspect": false})
	if p.Matrix != nil {
		matrix(build, p)
		return
	}
	exclude, index, rename := map[string]any{"Time": true}, map[string]any{}, map[string]any{}
	titles := map[string]string{}
	for i, c := range p.Columns {
		name := c.field(p)
		index[name], rename[name] = i, c.Title
		if c.Label != "" {
			titles[c.Label] = c.Title
		}
		if props := c.properties(b, titles); len(props) > 0 {
			build.OverrideByName(c.Title, props)
		}
	}
	for i := range p.Queries { // a value without a column only selects the rows
		if name := valueField(p, i); index[name] == nil {
			exclude[name] = true
		}
	}
	if len(p.Queries) > 1 {
		build.WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}})
	}
	build.WithTransformation(dashboard.DataTransformerConfig{Id: "organize",
		Options: map[string]any{"excludeByName": exclude, "indexByName": index, "renameByName": rename}})
}

// field is Grafana's name of a column before it is renamed.
func (c Column) field(p Panel) string {
	if c.Label != "" {
		return c.Label
	}
	return valueField(p, c.Value-1)
}

func valueField(p Panel, i int) string {
	if len(p.Queries) == 1 {
		return "Value"
	}
	return "Value #" + refID(i)
}

func (c Column) properties(b Board, titles map[string]string) []dashboard.DynamicConfigValue {
	var props []dashboard.DynamicConfigValue
	add := func(id string, value any) {
		props = append(props, dashboard.DynamicConfigValue{Id: id, Value: value})
	}
	if c.Unit != "" {
		add("unit", string(c.Unit))
	}
	if len(c.Scale) > 0 || len(c.Words) > 0 {
		add("custom.cellOptions", map[string]any{"type": "color-text"})
	}
	if len(c.Scale) > 0 {
		add("thresholds", map[string]any{"mode": "absolute", "steps": steps(c.Scale)})
	}
	if len(c.Words) > 0 {
		add("mappings", mappings(c.Words))
	}
	if c.Width > 0 {
		add("custom.width", c.Width)
	}
	if c.Link != nil {
		link, err := c.Link.build(b, func(label string) string { return fmt.Sprintf("${__data.fields[%q]}", titles[label]) }).Build()
		if err == nil { // it has no validation
			add("links", []any{link})
		}
	}
	return props
}

// matrix makes a grid of the only query: coloured cells, a row's name first.
func matrix(build *dashboard.PanelBuilder, p Panel) {
	m := p.Matrix
	corner := m.Row + `\` + m.Column
	build.WithTransformation(dashboard.DataTransformerConfig{Id: "groupingToMatrix",
		Options: map[string]any{"rowField": m.Row, "columnField": m.Column, "valueField": "Value", "emptyValue": "null"}})
	build.WithTransformation(dashboard.DataTransformerConfig{Id: "organize",
		Options: map[string]any{"excludeByName": map[string]any{}, "indexByName": map[string]any{}, "renameByName": map[string]any{corner: p.Columns[0].Title}}})
	build.OverrideByRegexp("/^[0-9]+$/", []dashboard.DynamicConfigValue{
		{Id: "custom.cellOptions", Value: map[string]any{"type": "color-background", "mode": "basic"}},
		{Id: "custom.align", Value: "center"}, {Id: "custom.width", Value: 90}})
	build.OverrideByName(p.Columns[0].Title, []dashboard.DynamicConfigValue{{Id: "custom.width", Value: cog.ToPtr(260)}})
}
