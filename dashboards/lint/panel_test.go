package lint

import (
	"strings"

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
