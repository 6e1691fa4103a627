package lint

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
)

func identity(c *checker) {
	if deref(c.board.Uid) == "" {
		c.report(nil, "has no uid")
	}
	seen := map[uint32]bool{}
	id := func(p *dashboard.Panel, n uint32) {
		if n == 0 || seen[n] {
			c.report(p, "id %d is missing or another panel's", n)
		}
		seen[n] = true
	}
	for _, p := range c.board.Panels {
		if p.RowPanel != nil {
			id(nil, p.RowPanel.Id)
		}
		if p.Panel != nil {
			id(p.Panel, deref(p.Panel.Id))
		}
	}
	uids := 0
	for _, b := range c.boards {
		if deref(b.Uid) == deref(c.board.Uid) {
			uids++
		}
	}
	if uids > 1 {
		c.report(nil, "uid %s is another board's too", deref(c.board.Uid))
	}
}

const gridWidth = 24

func overlaps(c *checker) {
	var placed []dashboard.GridPos
	place := func(p *dashboard.Panel, g *dashboard.GridPos) {
		if g == nil || g.W == 0 || g.H == 0 || g.X+g.W > gridWidth {
			c.report(p, "has no place, or one beyond the edge")
			return
		}
		for _, o := range placed {
			if g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H {
				c.report(p, "overlaps another panel at %d,%d", g.X, g.Y)
			}
		}
		placed = append(placed, *g)
	}
	for _, p := range c.board.Panels {
		if p.RowPanel != nil {
			place(nil, p.RowPanel.GridPos)
		}
		if p.Panel != nil {
			place(p.Panel, p.Panel.GridPos)
		}
	}
}

func words(c *checker) {
	if deref(c.board.Title) == "" || deref(c.board.Description) == "" {
		c.report(nil, "has no title or no description")
	}
	titles := map[string]bool{}
	c.panels(func(p *dashboard.Panel) {
		if deref(p.Title) == "" || titles[deref(p.Title)] {
			c.report(p, "its title is missing or another panel's")
		}
		titles[deref(p.Title)] = true
		about, absent, ok := strings.Cut(deref(p.Description), "\n\n"+board.NA+": ")
		if len(about) < 10 || !ok || len(absent) < 10 {
			c.report(p, "its description does not state what it shows and what %s means", board.NA)
		}
	})
	for _, v := range c.board.Templating.List {
		if deref(v.Label) == "" || deref(v.Description) == "" {
			c.report(nil, "variable %s has no label or no description", v.Name)
		}
	}
}

func absence(c *checker) {
	c.panels(func(p *dashboard.Panel) {
		f := eval.FieldOf(*p, "")
		nothing := f.Nothing()
		if nothing.Text != board.NA || nothing.Colour != string(board.Muted) {
			c.report(p, "shows %q in %q where there is no value", nothing.Text, nothing.Colour)
		}
		if p.FieldConfig == nil {
			return
		}
		for _, o := range p.FieldConfig.Overrides { // new mappings take the place of the old
			name, _ := o.Matcher.Options.(string)
			if cell := eval.FieldOf(*p, name).Nothing(); o.Matcher.Id == "byName" && (cell.Text != board.NA || cell.Colour != string(board.Muted)) {
				c.report(p, "%s shows %q in %q where there is no value", name, cell.Text, cell.Colour)
			}
		}
		if span, ok := f.Style["spanNulls"].(bool); p.Type == string(board.Series) && (!ok || span) {
			c.report(p, "draws lines across times without values")
		}
	})
}

func datasources(c *checker) {
	good := func(r *common.DataSourceRef) bool {
		return r != nil && deref(r.Type) == "prometheus" && deref(r.Uid) == "${"+board.Datasource+"}"
	}
	c.panels(func(p *dashboard.Panel) {
		if !good(p.Datasource) {
			c.report(p, "does not ask the data source that the variable chooses")
		}
		for i, t := range p.Targets {
			if q, ok := eval.Query(t); !ok || !good(q.Datasource) {
				c.report(p, "query %d does not ask the data source that the variable chooses", i+1)
			}
		}
	})
	for _, v := range c.board.Templating.List {
		if v.Type == dashboard.VariableTypeQuery && !good(v.Datasource) {
			c.report(nil, "variable %s does not ask the data source that the variable chooses", v.Name)
		}
	}
	for _, a := range c.board.Annotations.List {
		if !good(a.Datasource) {
			c.report(nil, "annotation %s does not ask the data source that the variable chooses", a.Name)
		}
	}
}

func legends(c *checker) {
	c.panels(func(p *dashboard.Panel) {
		refs := map[string]bool{}
		named := map[string]bool{}
		for i, t := range p.Targets {
			q, _ := eval.Query(t)
			if ref := deref(q.RefId); ref == "" || refs[ref] {
				c.report(p, "query %d has no refId of its own", i+1)
			}
			refs[deref(q.RefId)] = true
			if p.Type == string(board.Table) {
				continue
			}
			legend := deref(q.LegendFormat)
			alone := p.Type == string(board.Stat) && len(p.Targets) == 1
			if legend == "" && !alone || named[legend] {
				c.report(p, "query %d has no legend of its own", i+1)
			}
			named[legend] = true
		}
	})
}

func moments(c *checker) {
	c.panels(func(p *dashboard.Panel) {
		past := p.Type == string(board.Series) || p.Type == string(board.Timeline)
		for i, t := range p.Targets {
			if q, _ := eval.Query(t); deref(q.Instant) == past || deref(q.Range) != past {
				c.report(p, "query %d: a %s has the wrong one of instant and range", i+1, p.Type)
			}
		}
	})
}

func patterns(c *checker) {
	c.panels(func(p *dashboard.Panel) {
		if p.FieldConfig == nil {
			return
		}
		for _, o := range p.FieldConfig.Overrides {
			text, _ := o.Matcher.Options.(string)
			if o.Matcher.Id == "byRegexp" && (len(text) < 3 || text[0] != '/' || text[len(text)-1] != '/') {
				c.report(p, "the pattern %q is not between slashes", text)
			}
		}
	})
}
