package board

import (
	"fmt"
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// timelines are the kinds that show the past. The others show now, by instant queries:
// the last value of a range would be shown as current long after its source is stale.
func (k Kind) timeline() bool { return k == Series || k == Timeline }

func panel(b Board, p Panel) (dashboard.Panel, error) {
	build := dashboard.NewPanelBuilder().Type(string(p.Kind)).Id(id("panel", p.Title)).Title(p.Title).
		Description(p.About + "\n\n" + NA + ": " + p.Absent).Datasource(source()).
		Unit(string(p.Unit)).NoValue(NA).Mappings(mappings(p.Words)).Thresholds(thresholds(p.Scale)).
		ColorScheme(colouring(p))
	if p.Max > 0 {
		build.Min(0).Max(p.Max)
	}
	for i, q := range p.Queries {
		build.WithTarget(target(p, i, q))
	}
	for _, h := range p.Hues {
		build.OverrideByName(h.Name, []dashboard.DynamicConfigValue{fixed(h.Colour)})
	}
	for _, band := range p.Bands {
		build.OverrideByName(band.High, []dashboard.DynamicConfigValue{
			{Id: "custom.fillBelowTo", Value: band.Low}, {Id: "custom.lineWidth", Value: 0}})
		build.OverrideByName(band.Low, []dashboard.DynamicConfigValue{{Id: "custom.lineWidth", Value: 0}})
	}
	switch p.Kind {
	case Stat:
		build.Options(statOptions(p))
	case Bars:
		build.Options(barOptions())
	case Series:
		build.Options(seriesOptions()).Custom(seriesStyle(p))
	case Timeline:
		build.Options(timelineOptions()).Custom(map[string]any{"fillOpacity": 85, "lineWidth": 0})
	case Table:
		columns(build, b, p)
	default:
		return dashboard.Panel{}, fmt.Errorf("no such kind: %q", p.Kind)
	}
	return build.Build()
}

func target(p Panel, i int, q Query) *prometheus.DataqueryBuilder {
	t := prometheus.NewDataqueryBuilder().RefId(refID(i)).Expr(q.Expr).EditorMode(prometheus.QueryEditorModeCode).Datasource(source())
	switch {
	case p.Kind == Table:
		return t.Instant().Format(prometheus.PromQueryFormatTable)
	case p.Kind.timeline():
		return t.Range().Format(prometheus.PromQueryFormatTimeSeries).LegendFormat(q.Legend)
	}
	return t.Instant().Format(prometheus.PromQueryFormatTimeSeries).LegendFormat(q.Legend)
}

// refID names the queries of a panel A, B, C.
func refID(i int) string { return string(rune('A' + i)) }

func mappings(words []Word) []dashboard.ValueMapping {
	options := map[string]dashboard.ValueMappingResult{}
	for i, w := range words {
		options[fmt.Sprint(w.Value)] = dashboard.ValueMappingResult{
			Text: cog.ToPtr(w.Text), Color: cog.ToPtr(string(w.Colour)), Index: cog.ToPtr(int32(i))}
	}
	nothing := dashboard.SpecialValueMap{Type: dashboard.MappingTypeSpecialValue, Options: dashboard.DashboardSpecialValueMapOptions{
		Match:  dashboard.SpecialValueMatchNullAndNan,
		Result: dashboard.ValueMappingResult{Text: cog.ToPtr(NA), Color: cog.ToPtr(string(Muted)), Index: cog.ToPtr(int32(len(words)))},
	}}
	all := []dashboard.ValueMapping{{SpecialValueMap: &nothing}}
	if len(words) > 0 {
		all = slices.Insert(all, 0, dashboard.ValueMapping{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: options}})
	}
	return all
}

func thresholds(s Scale) *dashboard.ThresholdsConfigBuilder {
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps(s))
}

func steps(s Scale) []dashboard.Threshold {
	if len(s) == 0 {
		s = Neutral()
	}
	all := []dashboard.Threshold{{Color: string(s[0].Colour)}}
	for _, step := range s[1:] {
		all = append(all, dashboard.Threshold{Value: cog.ToPtr(step.From), Color: string(step.Colour)})
	}
	return all
}

// colouring of lines is by name, so that a series keeps its colour when another comes or
// goes; all else is by value.
func colouring(p Panel) *dashboard.FieldColorBuilder {
	mode := dashboard.FieldColorModeIdThresholds
	if p.Kind == Series {
		mode = dashboard.FieldColorModeIdPaletteClassicByName
	}
	return dashboard.NewFieldColorBuilder().Mode(mode)
}

func fixed(c Colour) dashboard.DynamicConfigValue {
	return dashboard.DynamicConfigValue{Id: "color", Value: map[string]any{"mode": "fixed", "fixedColor": string(c)}}
}

func last() common.ReduceDataOptions {
	return common.ReduceDataOptions{Values: cog.ToPtr(false), Calcs: []string{"lastNotNull"}, Fields: cog.ToPtr("")}
}

func statOptions(p Panel) stat.Options {
	o := *stat.NewOptions()
	o.ReduceOptions, o.GraphMode, o.ColorMode = last(), common.BigValueGraphModeNone, common.BigValueColorModeValue
	o.TextMode = common.BigValueTextModeValue
	if len(p.Queries) > 1 || p.Queries[0].Legend != "" {
		o.TextMode = common.BigValueTextModeValueAndName
	}
	return o
}

func barOptions() bargauge.Options {
	o := *bargauge.NewOptions()
	o.ReduceOptions, o.DisplayMode, o.Orientation = last(), common.BarGaugeDisplayModeBasic, common.VizOrientationHorizontal
	o.Legend.Calcs, o.Legend.ShowLegend = []string{}, false
	return o
}

func seriesOptions() timeseries.Options {
	o := *timeseries.NewOptions()
	o.Legend = common.VizLegendOptions{DisplayMode: common.LegendDisplayModeList, Placement: common.LegendPlacementBottom, ShowLegend: true, Calcs: []string{}}
	o.Tooltip = common.VizTooltipOptions{Mode: common.TooltipDisplayModeMulti, Sort: common.SortOrderDescending}
	return o
}

// seriesStyle leaves gaps without values: a line across them would be invented.
func seriesStyle(p Panel) common.GraphFieldConfig {
	style := common.GraphFieldConfig{
		DrawStyle: cog.ToPtr(common.GraphDrawStyleLine), LineWidth: cog.ToPtr(1.0), FillOpacity: cog.ToPtr(8.0),
		ShowPoints: cog.ToPtr(common.VisibilityModeAuto), SpanNulls: &common.BoolOrFloat64{Bool: cog.ToPtr(false)},
		AxisSoftMin: cog.ToPtr(0.0),
	}
	if p.Steps {
		style.LineInterpolation = cog.ToPtr(common.LineInterpolationStepAfter)
	}
	mode := common.StackingModeNone
	switch {
	case p.Share:
		mode = common.StackingModePercent
	case p.Stack:
		mode = common.StackingModeNormal
	}
	style.Stacking = &common.StackingConfig{Mode: &mode, Group: cog.ToPtr("A")}
	if p.Share || p.Stack {
		style.FillOpacity, style.LineWidth = cog.ToPtr(65.0), cog.ToPtr(0.0)
	}
	return style
}

func timelineOptions() statetimeline.Options {
	o := *statetimeline.NewOptions()
	o.ShowValue, o.RowHeight, o.MergeValues = common.VisibilityModeAuto, 0.85, cog.ToPtr(true)
	o.Legend = common.VizLegendOptions{DisplayMode: common.LegendDisplayModeList, Placement: common.LegendPlacementBottom, ShowLegend: true, Calcs: []string{}}
	o.Tooltip = common.VizTooltipOptions{Mode: common.TooltipDisplayModeSingle, Sort: common.SortOrderNone}
	o.PerPage = cog.ToPtr(40.0)
	return o
}

func tableOptions(p Panel) table.Options {
	o := *table.NewOptions()
	o.ShowHeader, o.CellHeight, o.Footer = true, cog.ToPtr(common.TableCellHeightSm), nil // its default breaks its own schema
	for _, c := range p.Columns {
		if c.Sort {
			o.SortBy = []common.TableSortByFieldState{{DisplayName: c.Title, Desc: cog.ToPtr(true)}}
		}
	}
	return o
}
