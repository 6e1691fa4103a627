package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"github.com/gpuscale/gpuscale/dashboards/board"
)

// register adds our kinds of panels to the schema. A board with another kind is refused.
var register = sync.OnceFunc(func() {
	r := cog.NewRuntime()
	r.RegisterPanelcfgVariant(stat.VariantConfig())
	r.RegisterPanelcfgVariant(timeseries.VariantConfig())
	r.RegisterPanelcfgVariant(bargauge.VariantConfig())
	r.RegisterPanelcfgVariant(table.VariantConfig())
	r.RegisterPanelcfgVariant(statetimeline.VariantConfig())
	r.RegisterDataqueryVariant(prometheus.VariantConfig())
})

// Load reads a board's JSON strictly: an unknown field, a missing one or a value
// outside the schema is an error. Titles of annotations, which the schema does not
// know and Grafana does, are taken out first and returned beside it, by name.
func Load(text []byte) (dashboard.Dashboard, map[string]string, error) {
	register()
	var plain map[string]any
	if err := json.Unmarshal(text, &plain); err != nil {
		return dashboard.Dashboard{}, nil, fmt.Errorf("reading a board: %w", err)
	}
	titles, err := takeTitles(plain)
	if err != nil {
		return dashboard.Dashboard{}, nil, err
	}
	rest, err := json.Marshal(plain)
	if err != nil {
		return dashboard.Dashboard{}, nil, fmt.Errorf("reading a board: %w", err)
	}
	var d dashboard.Dashboard
	if err := d.UnmarshalJSONStrict(rest); err != nil {
		return dashboard.Dashboard{}, nil, fmt.Errorf("reading a board: %w", err)
	}
	if err := d.Validate(); err != nil {
		return dashboard.Dashboard{}, nil, fmt.Errorf("reading a board: %w", err)
	}
	return d, titles, nil
}

func takeTitles(plain map[string]any) (map[string]string, error) {
	titles := map[string]string{}
	annotations, ok := plain["annotations"].(map[string]any)
	if !ok || annotations["list"] == nil {
		return titles, nil
	}
	list, ok := annotations["list"].([]any)
	if !ok {
		return nil, errors.New("reading a board: its annotations are no list")
	}
	for _, item := range list {
		one, ok := item.(map[string]any)
		if !ok {
			return nil, errors.New("reading a board: an annotation is no object")
		}
		name, _ := one["name"].(string)
		if title, ok := one[board.TitleFormat].(string); ok {
			titles[name] = title
			delete(one, board.TitleFormat)
		}
	}
	return titles, nil
}

// Panels returns the panels of a board in order, rows' headings left out.
func Panels(d dashboard.Dashboard) []dashboard.Panel {
	var all []dashboard.Panel
	for _, p := range d.Panels {
		switch {
		case p.Panel != nil:
			all = append(all, *p.Panel)
		case p.RowPanel != nil:
			all = append(all, p.RowPanel.Panels...)
		}
	}
	return all
}

// Query returns the Prometheus query of a target.
func Query(target any) (prometheus.Dataquery, bool) {
	switch q := target.(type) {
	case prometheus.Dataquery:
		return q, true
	case *prometheus.Dataquery:
		return *q, true
	}
	return prometheus.Dataquery{}, false
}
