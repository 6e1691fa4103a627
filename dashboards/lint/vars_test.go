package lint

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
)

var (
	reference = regexp.MustCompile(`\$\{?([a-zA-Z]\w*)`)
	target    = regexp.MustCompile(`^/d/([^/?]+)\?(.*)$`)
)

func variables(c *checker) {
	declared := map[string]bool{}
	for _, v := range c.board.Templating.List {
		declared[v.Name] = true
	}
	used := map[string]bool{}
	use := func(p *dashboard.Panel, text string) {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			used[m[1]] = true
			if !declared[m[1]] && !strings.HasPrefix(m[1], "__") {
				c.report(p, "there is no variable %s", m[1])
			}
		}
	}
	c.panels(func(p *dashboard.Panel) {
		for _, t := range p.Targets {
			q, _ := eval.Query(t)
			use(p, q.Expr)
			if q.Datasource != nil {
				use(p, deref(q.Datasource.Uid))
			}
		}
	})
	for _, name := range []string{board.Datasource, "cluster"} {
		if !declared[name] {
			c.report(nil, "has no variable %s", name)
		}
	}
	for name := range declared {
		if !used[name] {
			c.report(nil, "variable %s chooses nothing in any panel", name)
		}
	}
}

// links of values: their targets, and the variables they carry.
func links(c *checker) {
	boards := map[string]dashboard.Dashboard{}
	for _, b := range c.boards {
		boards[deref(b.Uid)] = b
	}
	c.panels(func(p *dashboard.Panel) {
		for _, l := range linksOf(p) {
			m := target.FindStringSubmatch(deref(l.Url))
			if m == nil {
				c.report(p, "the link %q leads to no board", deref(l.Url))
				continue
			}
			b, ok := boards[m[1]]
			if !ok {
				c.report(p, "there is no board %s", m[1])
				continue
			}
			c.carried(p, m[2], b)
		}
	})
	if !slices.ContainsFunc(c.board.Links, func(l dashboard.DashboardLink) bool {
		return l.Type == dashboard.DashboardLinkTypeDashboards && l.IncludeVars && l.KeepTime
	}) {
		c.report(nil, "has no link to the other boards that takes time and variables along")
	}
}

// carried checks that a link carries the time and every variable that both boards have,
// and sets only those that the other has.
func (c *checker) carried(p *dashboard.Panel, query string, to dashboard.Dashboard) {
	if !strings.Contains(query, "${__url_time_range}") {
		c.report(p, "a link to %s leaves the time behind", deref(to.Uid))
	}
	for _, v := range c.board.Templating.List {
		if has(to, v.Name) && !strings.Contains(query, "${"+v.Name+":queryparam}") && !strings.Contains(query, "var-"+v.Name+"=") {
			c.report(p, "a link to %s leaves the variable %s behind", deref(to.Uid), v.Name)
		}
	}
	for _, part := range strings.Split(query, "&") {
		if name, ok := strings.CutPrefix(part, "var-"); ok {
			if name, _, _ = strings.Cut(name, "="); !has(to, name) {
				c.report(p, "a link sets the variable %s, which %s does not have", name, deref(to.Uid))
			}
		}
	}
}

func has(b dashboard.Dashboard, name string) bool {
	return slices.ContainsFunc(b.Templating.List, func(v dashboard.VariableModel) bool { return v.Name == name })
}

// linksOf are the links of a panel's values, those of single columns included.
func linksOf(p *dashboard.Panel) []dashboard.DashboardLink {
	if p.FieldConfig == nil {
		return nil
	}
	all := slices.Clone(p.FieldConfig.Defaults.Links)
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			if property.Id != "links" {
				continue
			}
			var some []dashboard.DashboardLink
			if text, err := json.Marshal(property.Value); err == nil && json.Unmarshal(text, &some) == nil {
				all = append(all, some...)
			}
		}
	}
	return all
}
