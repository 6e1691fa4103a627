package board

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const gridWidth = 24

// JSON writes a board as Grafana's classic JSON. Equal boards give equal bytes.
func JSON(b Board) ([]byte, error) {
	d, err := Grafana(b)
	if err != nil {
		return nil, err
	}
	plain, err := plainJSON(d)
	if err != nil {
		return nil, fmt.Errorf("board %s: %w", b.UID, err)
	}
	titles(plain, b.Marks)
	unplaced(plain)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // queries have > and < in them
	enc.SetIndent("", "  ")
	if err := enc.Encode(plain); err != nil {
		return nil, fmt.Errorf("board %s: %w", b.UID, err)
	}
	return out.Bytes(), nil
}

func plainJSON(d dashboard.Dashboard) (map[string]any, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var plain map[string]any
	return plain, dec.Decode(&plain)
}

// titles gives annotations the field that Grafana's Prometheus data source takes
// their text from, and that its schema leaves out.
func titles(plain map[string]any, marks []Mark) {
	annotations, _ := plain["annotations"].(map[string]any)
	list, _ := annotations["list"].([]any)
	for i, m := range marks {
		list[i].(map[string]any)[TitleFormat] = m.Title
	}
}

// unplaced removes the placement that the SDK gives links and annotations: recent versions
// of Grafana hide what is placed in the menu of controls.
func unplaced(v any) {
	switch v := v.(type) {
	case map[string]any:
		if v["placement"] == "inControlsMenu" {
			delete(v, "placement")
		}
		for _, child := range v {
			unplaced(child)
		}
	case []any:
		for _, child := range v {
			unplaced(child)
		}
	}
}

// TitleFormat is the field of an annotation that the schema does not know.
const TitleFormat = "titleFormat"

// Grafana turns a board into Grafana's own model.
func Grafana(b Board) (dashboard.Dashboard, error) {
	build := dashboard.NewDashboardBuilder(b.Title).Uid(b.UID).Description(b.About).Tags([]string{Tag}).
		Readonly().Tooltip(dashboard.DashboardCursorSyncCrosshair).Time("now-6h", "now").Refresh("1m").
		Timezone("browser").Version(1)
	build.Link(dashboard.NewDashboardLinkBuilder("Boards").Type(dashboard.DashboardLinkTypeDashboards).
		Icon("external link").Tags([]string{Tag}).IncludeVars(true).KeepTime(true))
	for _, v := range b.Vars {
		build.WithVariable(variable(v))
	}
	for _, m := range b.Marks {
		build.Annotation(mark(m))
	}
	built, err := build.Build()
	if err != nil {
		return dashboard.Dashboard{}, fmt.Errorf("board %s: %w", b.UID, err)
	}
	built.Panels, err = layout(b)
	return built, err
}

// layout puts the rows under one another and the panels beside one another.
func layout(b Board) ([]dashboard.PanelOrRowPanel, error) {
	var all []dashboard.PanelOrRowPanel
	y := uint32(0)
	for _, row := range b.Rows {
		heading := dashboard.NewRowPanel()
		heading.Title, heading.Id = cog.ToPtr(row.Title), id("row", row.Title)
		heading.GridPos = &dashboard.GridPos{X: 0, Y: y, W: gridWidth, H: 1}
		all = append(all, dashboard.PanelOrRowPanel{RowPanel: heading})
		y++
		x, tallest := uint32(0), uint32(0)
		for _, p := range row.Panels {
			w, h := p.size()
			if x+w > gridWidth {
				x, y, tallest = 0, y+tallest, 0
			}
			built, err := panel(b, p)
			if err != nil {
				return nil, fmt.Errorf("board %s, panel %q: %w", b.UID, p.Title, err)
			}
			built.GridPos = &dashboard.GridPos{X: x, Y: y, W: w, H: h}
			all = append(all, dashboard.PanelOrRowPanel{Panel: &built})
			x, tallest = x+w, max(tallest, h)
		}
		y += tallest
	}
	return all, nil
}

// size of a panel: its own, or its kind's.
func (p Panel) size() (w, h uint32) {
	w, h = 12, 8
	switch p.Kind {
	case Stat:
		w, h = 4, 4
	case Bars:
		w = 8
	case Table, Timeline:
		w = gridWidth
	}
	if p.W != 0 {
		w = p.W
	}
	if p.H != 0 {
		h = p.H
	}
	return w, h
}

// id is derived from the title, so that adding a panel changes no other's: links to
// panels stay valid. The lint finds collisions.
func id(kind, title string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(kind + "\x00" + title))
	return 1 + h.Sum32()%999_983
}

// source is the data source of the variable, never a fixed name of one Grafana.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}
