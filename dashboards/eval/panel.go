package eval

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// Answer is the result of a panel's queries.
type Answer struct {
	Panel  dashboard.Panel
	Series []Series // of every kind of panel but tables
	Table  *Grid    // of tables
}

// Series is a line with the name that its legend gives it.
type Series struct {
	Line
	Name  string
	Query int // place among the panel's queries
}

// Cells are all values shown now: the last of each series, or every cell with a
// value in a table.
func (a Answer) Cells() []Cell {
	var cells []Cell
	if a.Table != nil {
		for _, row := range a.Table.Rows {
			for i, c := range row {
				if !a.Table.Columns[i].Label && c.Known {
					cells = append(cells, c)
				}
			}
		}
		return cells
	}
	for _, s := range a.Series {
		cells = append(cells, FieldOf(a.Panel, s.Name).Show(s.Last()))
	}
	return cells
}

// Last is the newest value.
func (s Series) Last() float64 { return s.Points[len(s.Points)-1].Value }

// Ask evaluates a panel's queries.
func Ask(ctx context.Context, src Source, p dashboard.Panel, vars Vars, w Window) (Answer, error) {
	a := Answer{Panel: p}
	frames := make([][]Line, len(p.Targets))
	for i, t := range p.Targets {
		q, ok := Query(t)
		if !ok {
			return a, fmt.Errorf("query %d is not one for Prometheus", i+1)
		}
		expr, err := Fill(q.Expr, vars, w)
		if err != nil {
			return a, err
		}
		if frames[i], err = ask(ctx, src, q, expr, w); err != nil {
			return a, err
		}
		for _, l := range frames[i] {
			a.Series = append(a.Series, Series{Line: l, Name: Legend(q, l.Labels), Query: i})
		}
	}
	slices.SortStableFunc(a.Series, func(x, y Series) int {
		if x.Query != y.Query {
			return x.Query - y.Query
		}
		return strings.Compare(x.Name, y.Name)
	})
	if p.Type == "table" {
		grid, err := grid(p, frames)
		a.Table, a.Series = &grid, nil
		return a, err
	}
	return a, nil
}

func ask(ctx context.Context, src Source, q prometheus.Dataquery, expr string, w Window) ([]Line, error) {
	if q.Instant != nil && *q.Instant {
		return src.Instant(ctx, expr, w.To)
	}
	return src.Range(ctx, expr, w.From, w.To, w.Step)
}

var placeholder = regexp.MustCompile(`\{\{\s*(.+?)\s*\}\}`)

// Legend is a series' name: the query's legend with the labels filled in, or the
// labels as PromQL writes them where it has none.
func Legend(q prometheus.Dataquery, labels map[string]string) string {
	if q.LegendFormat == nil || *q.LegendFormat == "" {
		return fmt.Sprint(labels)
	}
	return FillLabels(*q.LegendFormat, labels)
}

// FillLabels puts labels into a text with {{label}} in it.
func FillLabels(text string, labels map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(s string) string {
		return labels[placeholder.FindStringSubmatch(s)[1]]
	})
}

// Event is an event that an annotation marks.
type Event struct {
	Time   time.Time
	Name   string
	Title  string
	Colour string
}

// Events evaluates a board's annotations. Titles are those that Load returned.
func Events(ctx context.Context, src Source, d dashboard.Dashboard, titles map[string]string, vars Vars, w Window) ([]Event, error) {
	var events []Event
	for _, a := range d.Annotations.List {
		q, ok := Query(a.Target)
		if !ok {
			continue
		}
		expr, err := Fill(q.Expr, vars, w)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %w", a.Name, err)
		}
		step, err := time.ParseDuration(*q.Interval)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %w", a.Name, err)
		}
		lines, err := src.Range(ctx, expr, w.From, w.To, step)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %w", a.Name, err)
		}
		for _, l := range lines {
			for _, p := range l.Points {
				if p.Value > 0 {
					events = append(events, Event{Time: p.Time, Name: a.Name, Title: FillLabels(titles[a.Name], l.Labels), Colour: a.IconColor})
				}
			}
		}
	}
	slices.SortFunc(events, func(x, y Event) int { return x.Time.Compare(y.Time) })
	return events, nil
}
