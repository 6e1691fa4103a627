package board

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// object is an object of Grafana's JSON. Its keys are written in order, so that equal boards
// give equal bytes.
type object = map[string]any

// JSON writes a board as Grafana's classic JSON. Fields that the board does not set have the defaults of
// Grafana's schema; a test reads the files with that schema.
func JSON(b Board) ([]byte, error) {
	var vars, marks, panels []object
	for _, v := range b.Vars {
		vars = append(vars, variable(v))
	}
	for _, m := range b.Marks {
		marks = append(marks, mark(m))
	}
	for _, p := range b.Layout() {
		panels = append(panels, placed(b, p))
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // queries have > and < in them
	enc.SetIndent("", "  ")
	err := enc.Encode(object{
		"uid": b.UID, "title": b.Title, "description": b.About, "tags": []string{Tag}, "schemaVersion": 42, "version": 1, "editable": false, "graphTooltip": 1,
		"time": object{"from": "now-6h", "to": "now"}, "refresh": "1m", "timezone": "browser", "fiscalYearStartMonth": 0,
		"links":      []object{link(object{"title": "Boards", "type": "dashboards", "icon": "external link", "tags": []string{Tag}, "includeVars": true, "keepTime": true})},
		"templating": object{"list": vars}, "annotations": object{"list": marks}, "panels": panels,
	})
	if err != nil {
		return nil, fmt.Errorf("board %s: %w", b.UID, err)
	}
	return out.Bytes(), nil
}

// link completes a link. It sets no placement, because recent versions of Grafana hide links that are placed
// in the controls menu.
func link(o object) object {
	all := object{"asDropdown": false, "icon": "", "includeVars": false, "keepTime": false, "tags": []string{}, "targetBlank": false, "tooltip": ""}
	maps.Copy(all, o)
	return all
}

// id is derived from the title. Adding a panel changes no other panel's id, so links to panels stay valid.
// The lint finds collisions.
func id(kind, title string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(kind + "\x00" + title))
	return 1 + h.Sum32()%999_983
}

// source refers to the data source variable, so boards work with a data source of any name.
var source = object{"type": "prometheus", "uid": "${" + Datasource + "}"}

func variable(v Var) object {
	o := object{"name": v.Name, "label": v.Title, "description": v.About, "type": "datasource", "query": "prometheus", "multi": false, "includeAll": false,
		"skipUrlSync": false, "allowCustomValue": true, "auto": false, "auto_count": 30, "auto_min": "10s"}
	if v.Name == Datasource {
		return o
	}
	query, regex := "label_values("+v.Series+", "+v.Label+")", ""
	if v.Moved {
		query, regex = "query_result("+v.Values()+")", "/"+v.Label+`="([^"]+)"/`
	}
	maps.Copy(o, object{"type": "query", "datasource": source, "query": object{"query": query, "refId": "Var-" + v.Name}, "definition": query, "regex": regex,
		"refresh": 2 /* when the time changes */, "sort": 7 /* natural */, "multi": true, "includeAll": true, "allValue": All,
		"current": object{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}}})
	return o
}

// MarkStep is the minimum step of annotation queries, in seconds. Over days Grafana uses a longer step. The
// lookback is "$__interval", the step itself, so each event is found once.
const MarkStep = 60

// mark includes titleFormat: Grafana's Prometheus data source takes the text from it, though Grafana's schema
// does not have it.
func mark(m Mark) object {
	return object{"name": m.Name, "datasource": source, "enable": true, "hide": false, "builtIn": 0, "iconColor": m.Colour, "titleFormat": m.Title,
		"target": object{"datasource": source, "expr": m.Expr, "interval": fmt.Sprintf("%ds", MarkStep), "refId": "Anno"}}
}

func placed(b Board, at Placed) object {
	o := object{"id": id("row", at.Row), "type": "row", "title": at.Row, "collapsed": false, "panels": []any{}}
	if at.Panel != nil {
		o = panel(b, *at.Panel)
	}
	o["gridPos"] = object{"x": at.X, "y": at.Y, "w": at.W, "h": at.H}
	return o
}

func panel(b Board, p Panel) object {
	// A line's colour depends on its name, so it stays when other lines appear or disappear. Everything else is
	// coloured by value.
	colouring := "thresholds"
	if p.Kind == Series {
		colouring = "palette-classic-by-name"
	}
	defaults := object{"unit": p.Unit, "noValue": NA, "mappings": mappings(p.Words, p.Missing()), "thresholds": thresholds(p.Scale), "color": object{"mode": colouring}}
	if p.Max > 0 || p.Kind == Bars {
		defaults["min"] = 0 // by default bars begin at the least of the values
	}
	if p.Max > 0 {
		defaults["max"] = p.Max
	}
	options, custom := style(p)
	if custom != nil {
		defaults["custom"] = custom
	}
	o := object{"id": id("panel", p.Title), "type": p.Kind, "title": p.Title, "description": p.Description(), "datasource": source, "transparent": false, "repeatDirection": "h",
		"targets": targets(p), "options": options, "fieldConfig": object{"defaults": defaults, "overrides": overrides(b, p)}}
	if p.Kind == Table {
		o["transformations"] = transformations(p)
	}
	return o
}

// targets uses range queries for panels that show the past, and instant queries for panels that show now. The
// last value of a range query would be shown as current long after its source is stale.
func targets(p Panel) []object {
	var all []object
	for i, q := range p.Queries {
		t := object{"refId": refID(i), "expr": q.Expr, "datasource": source, "editorMode": "code", "format": "time_series", "instant": !p.Kind.Past(), "range": p.Kind.Past()}
		if p.Kind == Table {
			t["format"] = "table"
		} else {
			t["legendFormat"] = q.Legend
		}
		all = append(all, t)
	}
	return all
}

// refID names the queries of a panel A, B, C.
func refID(i int) string { return string(rune('A' + i)) }

func mappings(words []Word, missing Colour) []object {
	options := object{}
	for i, w := range words {
		options[fmt.Sprint(w.Value)] = object{"text": w.Text, "color": w.Colour, "index": i}
	}
	nothing := object{"type": "special", "options": object{"match": "null+nan", "result": object{"text": NA, "color": missing, "index": len(words)}}}
	if len(words) == 0 {
		return []object{nothing}
	}
	return []object{{"type": "value", "options": options}, nothing}
}

func thresholds(s Scale) object {
	steps := []object{}
	for i, step := range s.OrNeutral() {
		steps = append(steps, object{"value": step.From, "color": step.Colour})
		if i == 0 {
			steps[0]["value"] = nil
		}
	}
	return object{"mode": "absolute", "steps": steps}
}

// style returns the settings of a panel's kind and of its values.
func style(p Panel) (options, custom object) {
	last := object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	legend := object{"calcs": []string{}, "displayMode": "list", "placement": "bottom", "showLegend": p.Kind.Past()}
	switch p.Kind {
	case Stat:
		text := "value"
		if len(p.Queries) > 1 || p.Queries[0].Legend != "" {
			text = "value_and_name"
		}
		return object{"reduceOptions": last, "graphMode": "none", "colorMode": "value", "textMode": text, "justifyMode": "auto", "orientation": "auto",
			"percentChangeColorMode": "standard", "showPercentChange": false, "wideLayout": false /* a name is above its value */}, nil
	case Bars:
		return object{"reduceOptions": last, "displayMode": "basic", "orientation": "horizontal", "legend": legend, "namePlacement": "auto", "showUnfilled": true,
			"sizing": "auto", "valueMode": "color", "maxVizHeight": 300, "minVizHeight": 16, "minVizWidth": 8}, nil
	case Series:
		return object{"legend": legend, "tooltip": object{"mode": "multi", "sort": "desc"}}, lines(p)
	case Timeline:
		return object{"legend": legend, "tooltip": object{"mode": "single", "sort": "none"}, "showValue": "auto", "rowHeight": 0.85, "mergeValues": true, "perPage": 40, "alignValue": "left"},
			object{"fillOpacity": 85, "lineWidth": 0}
	}
	options = object{"showHeader": true, "cellHeight": "sm", "frameIndex": 0, "showTypeIcons": false}
	var by []object
	for _, c := range p.Order() {
		by = append(by, object{"displayName": c.Title, "desc": c.Sort})
	}
	options["sortBy"] = by
	// By default a column has at least 150 pixels, and columns that do not fit are hidden.
	return options, object{"align": "auto", "cellOptions": object{"type": "auto"}, "inspect": false, "minWidth": 60}
}

// lines leaves gaps where there are no values: a line across a gap would be invented.
func lines(p Panel) object {
	o := object{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 8, "showPoints": "auto", "spanNulls": false, "axisSoftMin": 0}
	if p.Steps {
		o["lineInterpolation"] = "stepAfter"
	}
	o["stacking"] = object{"mode": "none", "group": "A"}
	if p.Stack {
		o["stacking"] = object{"mode": "normal", "group": "A"}
		o["fillOpacity"], o["lineWidth"] = 65, 0
	}
	return o
}

// overrides returns the settings of single series and columns.
func overrides(b Board, p Panel) []object {
	all := []object{}
	add := func(name string, properties ...object) {
		if len(properties) > 0 {
			all = append(all, object{"matcher": object{"id": "byName", "options": name}, "properties": properties})
		}
	}
	for _, h := range p.Hues {
		add(h.Name, property("color", object{"mode": "fixed", "fixedColor": h.Colour}))
	}
	for _, band := range p.Bands {
		add(band.High, property("custom.fillBelowTo", band.Low), property("custom.lineWidth", 0))
		add(band.Low, property("custom.lineWidth", 0))
	}
	if p.Matrix != nil {
		all = append(all, object{"matcher": object{"id": "byRegexp", "options": "/^[0-9]+$/"}, "properties": []object{
			property("custom.cellOptions", object{"type": "color-background", "mode": "basic"}), property("custom.align", "center")}})
		add(p.Columns[0].Title, property("custom.width", 260))
		return all
	}
	titles := map[string]string{}
	for _, c := range p.Columns {
		if c.Label != "" {
			titles[c.Label] = c.Title
		}
		add(c.Title, c.properties(b, titles)...)
	}
	return all
}

func property(id string, value any) object { return object{"id": id, "value": value} }

func (c Column) properties(b Board, titles map[string]string) []object {
	var all []object
	for _, p := range []struct {
		set   bool
		id    string
		value any
	}{
		{c.Unit != "", "unit", c.Unit}, {c.Coloured(), "custom.cellOptions", object{"type": "color-text"}}, {len(c.Scale) > 0, "thresholds", thresholds(c.Scale)},
		{len(c.Words) > 0, "mappings", mappings(c.Words, Muted)}, {c.Width > 0, "custom.width", c.Width},
	} {
		if p.set {
			all = append(all, property(p.id, p.value))
		}
	}
	if c.Link != nil {
		all = append(all, property("links", []object{link(object{"title": c.Link.Title, "type": "link", "url": c.Link.url(b, titles)})}))
	}
	return all
}

// url keeps the time range and the board's variables, and sets variables from the value that was clicked.
func (l Link) url(b Board, titles map[string]string) string {
	parts := []string{"${__url_time_range}"}
	for _, v := range b.Vars {
		if _, set := l.Set[v.Name]; !set {
			parts = append(parts, "${"+v.Name+":queryparam}")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.Set)) {
		parts = append(parts, fmt.Sprintf("var-%s=${__data.fields[%q]}", name, titles[l.Set[name]]))
	}
	return "/d/" + l.UID + "?" + strings.Join(parts, "&")
}

// transformations merges the results of a panel's queries into one table: rows with the same labels become
// one row, columns are renamed and ordered. A value without a column only selects rows.
func transformations(p Panel) []object {
	exclude, index, rename := object{}, object{}, object{}
	organize := object{"id": "organize", "options": object{"excludeByName": exclude, "indexByName": index, "renameByName": rename}}
	if m := p.Matrix; m != nil {
		rename[m.Row+`\`+m.Column] = p.Columns[0].Title
		// Grafana orders columns by the order of the values, and Prometheus returns values in no order.
		sorted := object{"id": "sortBy", "options": object{"fields": object{}, "sort": []object{{"field": m.Column, "desc": false}}}}
		return []object{sorted, {"id": "groupingToMatrix", "options": object{"rowField": m.Row, "columnField": m.Column, "valueField": "Value", "emptyValue": "null"}}, organize}
	}
	exclude["Time"] = true
	value := func(i int) string {
		if len(p.Queries) == 1 {
			return "Value"
		}
		return "Value #" + refID(i)
	}
	for i, c := range p.Columns {
		name := c.Label
		if name == "" {
			name = value(c.Value - 1)
		}
		index[name], rename[name] = i, c.Title
	}
	for i := range p.Queries {
		if index[value(i)] == nil {
			exclude[value(i)] = true
		}
	}
	if len(p.Queries) == 1 {
		return []object{organize}
	}
	return []object{{"id": "merge", "options": object{}}, organize}
}
