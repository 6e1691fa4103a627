package board

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Datasource is the name of the data source's variable.
const Datasource = "datasource"

func variable(v Var) cog.Builder[dashboard.VariableModel] {
	if v.Name == Datasource {
		return dashboard.NewDatasourceVariableBuilder(v.Name).Label(v.Title).Description(v.About).Type("prometheus")
	}
	query, regex := "label_values("+v.Series+", "+v.Label+")", ""
	if v.Moved {
		moved := fmt.Sprintf(`label_replace(%s,%q,"$1",%q,"(.+)")`, v.Series, v.Label, metric.Exported+v.Label)
		query, regex = "query_result(group by ("+v.Label+") ("+moved+"))", "/"+v.Label+`="([^"]+)"/`
	}
	// ".*" includes series without the label: with a single Prometheus they have no cluster.
	all := dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}}
	return dashboard.NewQueryVariableBuilder(v.Name).Label(v.Title).Description(v.About).Datasource(source()).
		Query(dashboard.StringOrMap{Map: map[string]any{"query": query, "refId": "Var-" + v.Name}}).Definition(query).Regex(regex).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortNaturalAsc).
		Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{Selected: cog.ToPtr(true), Text: dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}}, Value: all})
}

// MarkStep is the step of annotation queries and their lookback: each event is found once.
const MarkStep = "1m"

func mark(m Mark) *dashboard.AnnotationQueryBuilder {
	q := prometheus.NewDataqueryBuilder().Expr(m.Expr).RefId("Anno").Interval(MarkStep).Datasource(source())
	return dashboard.NewAnnotationQueryBuilder().Name(m.Name).Datasource(source()).Enable(true).IconColor(string(m.Colour)).Target(q)
}

// build makes the link's address. value writes a label of the value clicked on.
func (l Link) build(b Board, value func(label string) string) *dashboard.DashboardLinkBuilder {
	parts := []string{"${__url_time_range}"}
	for _, v := range b.Vars {
		if _, set := l.Set[v.Name]; !set {
			parts = append(parts, "${"+v.Name+":queryparam}")
		}
	}
	var names []string
	for name := range l.Set {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		parts = append(parts, "var-"+name+"="+value(l.Set[name]))
	}
	return dashboard.NewDashboardLinkBuilder(l.Title).Type(dashboard.DashboardLinkTypeLink).Url("/d/" + l.UID + "?" + strings.Join(parts, "&"))
}
