package eval

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// Source answers PromQL. *prom.Client is one.
type Source interface {
	Query(ctx context.Context, expr string, at time.Time) (prom.Vector, error)
	Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]prom.Line, error)
}

// Answer is the result of a panel's queries.
type Answer struct {
	Panel  board.Panel
	Series []Series // of every kind of panel but tables
	Table  *Grid    // of tables
}

// Series is a line with its legend name, or with its labels if the legend has no name.
type Series struct {
	prom.Line
	Name  string
	Query int // place among the panel's queries
}

// Last is the newest value.
func (s Series) Last() float64 { return s.Points[len(s.Points)-1].Value }

// Ask evaluates a panel of a board.
func Ask(ctx context.Context, src Source, b board.Board, p board.Panel, w Window) (Answer, error) {
	a := Answer{Panel: p}
	answers := make([][]prom.Line, len(p.Queries))
	for i, q := range p.Queries {
		expr, err := Fill(q.Expr, b, w)
		if err == nil && p.Kind.Past() {
			answers[i], err = src.Range(ctx, expr, w.From, w.To, w.Step)
		} else if err == nil {
			answers[i], err = now(ctx, src, expr, w.To)
		}
		if err != nil {
			return a, err
		}
		for _, l := range answers[i] {
			name := fmt.Sprint(l.Labels)
			if q.Legend != "" {
				name = filled(q.Legend, l.Labels)
			}
			a.Series = append(a.Series, Series{Line: l, Name: name, Query: i})
		}
	}
	if p.Kind == board.Table {
		table := grid(p, answers)
		a.Table, a.Series = &table, nil
	}
	slices.SortStableFunc(a.Series, func(x, y Series) int { return cmp.Or(x.Query-y.Query, strings.Compare(x.Name, y.Name)) })
	return a, nil
}

// now evaluates an instant query and returns lines with one point each.
func now(ctx context.Context, src Source, expr string, at time.Time) (all []prom.Line, err error) {
	vector, err := src.Query(ctx, expr, at)
	for _, s := range vector {
		all = append(all, prom.Line{Labels: s.Labels, Points: []prom.Point{{Time: at, Value: s.Value}}})
	}
	return all, err
}

var placeholder = regexp.MustCompile(`\{\{\s*(.+?)\s*\}\}`)

// filled replaces {{label}} in a text by the label's value.
func filled(text string, labels prom.Labels) string {
	return placeholder.ReplaceAllStringFunc(text, func(s string) string {
		return labels.Get(placeholder.FindStringSubmatch(s)[1])
	})
}

// Event is an event that an annotation marks.
type Event struct {
	Time   time.Time
	Title  string
	Colour board.Colour
}

// Events evaluates a board's annotations.
func Events(ctx context.Context, src Source, b board.Board, w Window) ([]Event, error) {
	w.Step = max(w.Step, board.MarkStep*time.Second)
	var events []Event
	for _, m := range b.Marks {
		var lines []prom.Line
		expr, err := Fill(m.Expr, b, w)
		if err == nil {
			lines, err = src.Range(ctx, expr, w.From, w.To, w.Step)
		}
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %w", m.Name, err)
		}
		for _, l := range lines {
			for _, p := range l.Points {
				if p.Value > 0 {
					events = append(events, Event{Time: p.Time, Title: filled(m.Title, l.Labels), Colour: m.Colour})
				}
			}
		}
	}
	slices.SortFunc(events, func(x, y Event) int { return x.Time.Compare(y.Time) })
	return events, nil
}
