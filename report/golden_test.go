package main

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	goldenfile "github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/report/fixture"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/prices"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/report/render/csv"
	"github.com/gpuscale/gpuscale/report/render/html"
	"github.com/gpuscale/gpuscale/report/render/md"
)

// story is played once for all tests.
var story = sync.OnceValue(fixture.Story)

// answers are those of the story's last week.
var answers = sync.OnceValues(func() (query.Answers, error) {
	w, err := query.NewWindow(fixture.StoryEnd, 7*24*time.Hour)
	if err != nil {
		return query.Answers{}, err
	}
	return query.Run(context.Background(), story().Prometheus, w, query.Options{})
})

// generated is when the golden reports were made.
var generated = time.Date(2026, 3, 10, 6, 0, 0, 0, time.UTC)

func golden(t *testing.T, in func(*model.Input)) model.Report {
	t.Helper()
	a, err := answers()
	if err != nil {
		t.Fatal(err)
	}
	input := model.Input{Answers: a, Currency: "USD", Version: "v0.0.0-golden", Generated: generated}
	if in != nil {
		in(&input)
	}
	return model.Make(input)
}

// previous is the report of the week's first half, to compare with.
func previous(t *testing.T) *model.Report {
	t.Helper()
	a := answered(t, story().Prometheus, fixture.StoryEnd.Add(-4*24*time.Hour), 3*24*time.Hour)
	r := model.Make(model.Input{Answers: a, Currency: "USD", Version: "v0.0.0-golden", Generated: generated.Add(-4 * 24 * time.Hour)})
	return &r
}

// TestGolden writes the story's report in all forms. Diffs show what users see.
func TestGolden(t *testing.T) {
	r := golden(t, func(in *model.Input) { in.Previous = previous(t) })
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	check := func(name string, write func() error) {
		t.Helper()
		out.Reset()
		if err := write(); err != nil {
			t.Fatal(err)
		}
		goldenfile.Equal(t, filepath.Join("testdata", "golden", name), out.String())
	}
	check("report.html", func() error { return html.Write(&out, r) })
	if out.Len() > 500_000 {
		t.Errorf("the page has %d bytes, want at most 500,000", out.Len())
	}
	check("report.md", func() error { return md.Write(&out, r) })
	for _, name := range csv.Names(r) {
		check("csv/"+name+".csv", func() error { return csv.Write(&out, r, name) })
	}
}

// TestPriceList: a price list overrides the pools' prices, in its own currency. Hours
// with a price have a cost; a sum with a part without a price is unknown.
func TestPriceList(t *testing.T) {
	list, err := prices.Load("../docs/prices-example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	list.Currency = "CHF"
	r := golden(t, func(in *model.Input) { in.Prices = &list })
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	h100, _ := list.GPU("H100-80GB", false)
	for _, p := range r.Hours.Places {
		if p.Place != "idle" && p.Place != "sick" { // all of it on H100, none of it spot
			continue
		}
		if v, want := p.Money.Or(0), p.Hours.Or(math.NaN())*h100; !(math.Abs(v-want) <= 1e-6*want) || v == 0 {
			t.Errorf("%s: %v hours cost %v, want %v", p.Place, p.Hours.Or(0), v, want)
		}
	}
	if why := r.Hours.Money.Why(); why != "the price list has no spot price of A100-40GB" {
		t.Errorf("the window cost %v, unknown since %q", r.Hours.Money.Or(0), why)
	}
	var out bytes.Buffer
	if err := md.Write(&out, r); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "Money (CHF)") || strings.Contains(text, "USD") || !strings.Contains(text, list.Source+", of "+list.Date) {
		t.Error("the report does not say in which currency and whose its prices are")
	}
}
