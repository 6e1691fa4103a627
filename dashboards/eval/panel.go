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

// Series is a line with the name that its legend gives it.
type Series struct {
	prom.Line
	Name  string
	Query int // place among the panel's queries
}

// Last is the newest value.
func (s Series) Last() float64 { return s.Points[len(s.Points)-1].Value }

// Ask evaluates a panel's queries.
func Ask(ctx context.Context, src Source, p board.Panel, vars Vars, w Window) (Answer, error) {
	a := Answer{Panel: p}
	answers := make([][]prom.Line, len(p.Queries))
	for i, q := range p.Queries {
		var err error
		if answers[i], err = lines(ctx, src, p, i, vars, w); err != nil {
			return a, err
		}
		for _, l := range answers[i] {
			a.Series = append(a.Series, Series{Line: l, Name: Legend(q, l.Labels), Query: i})
		}
	}
	if p.Kind == board.Table {
		table := grid(p, answers)
		a.Table, a.Series = &table, nil
		return a, nil
	}
	slices.SortStableFunc(a.Series, func(x, y Series) int { return cmp.Or(x.Query-y.Query, strings.Compare(x.Name, y.Name)) })
	return a, nil
}

// lines answers one of a panel's queries: of what shows now, with a point for each line.
func lines(ctx context.Context, src Source, p board.Panel, query int, vars Vars, w Window) ([]prom.Line, error) {
	expr, err := Fill(p.Queries[query].Expr, vars, w)
	if err != nil {
		return nil, err
	}
	if p.Kind.Past() {
		return src.Range(ctx, expr, w.From, w.To, w.Step)
	}
	vector, err := src.Query(ctx, expr, w.To)
	var all []prom.Line
	for _, s := range vector {
		all = append(all, prom.Line{Labels: s.Labels, Points: []prom.Point{{Time: w.To, Value: s.Value}}})
	}
	return all, err
}

var placeholder = regexp.MustCompile(`\{\{\s*(.+?)\s*\}\}`)

// Legend is a series' name: the query's legend with the labels filled in, or the
// labels where it has none.
func Legend(q board.Query, labels prom.Labels) string {
	if q.Legend == "" {
		return fmt.Sprint(labels)
	}
	return filled(q.Legend, labels)
}

// filled puts labels into a text with {{label}} in it.
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
func Events(ctx context.Context, src Source, b board.Board, vars Vars, w Window) ([]Event, error) {
	w.Step = max(w.Step, board.MarkStep*time.Second)
	var events []Event
	for _, m := range b.Marks {
		expr, err := Fill(m.Expr, vars, w)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %w", m.Name, err)
		}
		lines, err := src.Range(ctx, expr, w.From, w.To, w.Step)
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
