package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	goldenfile "github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/prices"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/report/render"
)

// story is played once for all tests.
var story = sync.OnceValue(storyWeek)

// answers are those of the story's last week, and plain is the report of them.
var (
	answers = sync.OnceValues(func() (query.Answers, error) {
		w, err := query.NewWindow(storyEnd, 7*24*time.Hour)
		if err != nil {
			return query.Answers{}, err
		}
		return query.Run(context.Background(), story().Prometheus, w, query.Options{})
	})
	plain = sync.OnceValues(func() (model.Report, error) {
		a, err := answers()
		return model.Make(golden(a)), err
	})
)

// generated is when the golden reports were made.
var generated = time.Date(2026, 3, 10, 6, 0, 0, 0, time.UTC)

func golden(a query.Answers) model.Input {
	return model.Input{Answers: a, Currency: "USD", Version: "v0.0.0-golden", Generated: generated}
}

// goldenReport is the story's report, which tests do not change.
func goldenReport(t *testing.T) model.Report {
	t.Helper()
	r, err := plain()
	require.NoError(t, err)
	return r
}

// balanced reports whether the places of a report add up to its capacity.
func balanced(r model.Report) error {
	sum, known := r.Hours.Sum.Get()
	capacity, also := r.Hours.Capacity.Get()
	if known && also && math.Abs(sum-capacity) > ledger.Tolerance*capacity {
		return fmt.Errorf("the places add up to %.2f hours, the capacity is %.2f", sum, capacity)
	}
	return nil
}

// TestGolden writes the story's report as the page that users see, and as JSON with six digits in its figures. The JSON
// leaves out what the page draws, and its queries.
func TestGolden(t *testing.T) {
	r := goldenReport(t)
	require.NoError(t, balanced(r))
	var out bytes.Buffer
	require.NoError(t, render.HTML(&out, r))
	if out.Len() > 500_000 {
		t.Errorf("the page has %d bytes, want at most 500,000", out.Len())
	}
	goldenfile.Equal(t, filepath.Join("testdata", "golden", "report.html"), out.String())
	out.Reset()
	r.Hours.Over, r.Methods.Queries, r.Forecast.Outlooks = nil, nil, slices.Clone(r.Forecast.Outlooks)
	for i := range r.Forecast.Outlooks {
		r.Forecast.Outlooks[i].Past, r.Forecast.Outlooks[i].Ahead = nil, nil
	}
	require.NoError(t, text.JSON(&out, r))
	goldenfile.Equal(t, filepath.Join("testdata", "golden", "report.json"), out.String())
}

// words are the words of a report's page: sections, and tables with one row in a line.
func words(r model.Report) string {
	var b strings.Builder
	b.WriteString(r.Answer.Text + "\nData quality: " + r.Answer.Quality.Grade + "\n")
	for _, s := range render.Sections(r) {
		b.WriteString(strings.Join(append(s.Lead, ""), "\n"))
		for _, t := range s.Tables {
			b.WriteString("# " + t.Title + "\n")
			b.WriteString(strings.Join(t.Columns, "|") + "|")
			if len(t.Rows) == 0 {
				b.WriteString("\n" + t.Empty)
			}
			for _, row := range t.Rows {
				b.WriteString("\n")
				for _, c := range row {
					b.WriteString(c.Text + "|")
				}
			}
			b.WriteString("\n" + t.Note + "\n")
		}
	}
	return b.String()
}

// TestMoneyWithoutThePool: while the autoscaler is away, and until it is back, GPUs have the mean price of the pools
// with such GPUs.
func TestMoneyWithoutThePool(t *testing.T) {
	c := newCluster(storyEnd.Add(-6*time.Hour-20*time.Minute), time.Minute)
	c.Nodes = []*Node{whole("a", "reserved", modelH, 8), whole("b", "spot", modelH, 8)}
	c.Extra = func() (own []Exposed, _ map[string][]Exposed) {
		for pool, price := range map[string]float64{"reserved": 40, "spot": 16} {
			own = append(own, exposed(metric.AutoscalerPoolPrice.Name, price, metric.LabelPool, pool, metric.LabelSpot, fmt.Sprint(pool == "spot")),
				exposed(metric.AutoscalerPoolSize.Name, 1, metric.LabelPool, pool, metric.LabelKind, "size"),
				exposed(metric.AutoscalerGPUs.Name, 8, metric.LabelPool, pool, metric.LabelModel, "H100-80GB", metric.LabelState, "free"))
		}
		return own, nil
	}
	until(c, func() {
		if c.NoAutoscaler = c.Now.After(storyEnd.Add(-4*time.Hour)) && c.Now.Before(storyEnd.Add(-2*time.Hour)); c.NoAutoscaler {
			c.RestartAutoscaler()
		}
	})
	in := golden(answered(t, c.Prometheus, 6*time.Hour))
	for price, list := range map[float64]*prices.List{
		3.5: nil, 7: {Currency: "EUR", Prices: []prices.Price{{Model: "H100-80GB", PerHour: 10}, {Model: "H100-80GB", Spot: true, PerHour: 4}}},
	} {
		in.Prices = list
		r := model.Make(in)
		require.NoError(t, balanced(r))
		money, _ := r.Hours.Money.Get()
		if want := price * r.Hours.Capacity.Or(0); want < 300 || math.Abs(money-want) > 0.02*want {
			t.Errorf("%.1f GPU-hours cost %v (%s), want %.1f", r.Hours.Capacity.Or(0), money, r.Hours.Money.Why(), want)
		}
	}
}

// TestPriceList: a price list overrides the pools' prices, in its own currency. Hours with a price have a cost. A sum
// with a part without a price is unknown, and such rows are sorted by hours.
func TestPriceList(t *testing.T) {
	list, err := prices.Load("../docs/prices-example.yaml")
	require.NoError(t, err)
	list.Currency = "CHF"
	a, err := answers()
	require.NoError(t, err)
	in := golden(a)
	in.Prices = &list
	r := model.Make(in)
	require.NoError(t, balanced(r))
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
	if rows := r.Use.Rows; rows[1].Namespace != "batch" || rows[0].Money.Or(0) == 0 {
		t.Errorf("the hours of batch, which have no price, are compared with money: %+v", rows)
	}
	if page := words(r); !strings.Contains(page, "Money (CHF)") || strings.Contains(page, "USD") || !strings.Contains(page, list.Source+", of "+list.Date) {
		t.Error("the report does not say in which currency and whose its prices are")
	}
}

// TestBrowser checks the pages in Chromium with axe-core. It runs in make report-browser, which provides both.
func TestBrowser(t *testing.T) {
	chromium := cmp.Or(os.Getenv("CHROMIUM"), "/usr/bin/chromium")
	node, err := exec.LookPath("node")
	for _, file := range []string{"browser/node_modules/axe-core", chromium} {
		if _, missing := os.Stat(file); testing.Short() || err != nil || missing != nil {
			t.Skipf("-short is given, or there is no node or no %s: see `make report-browser`", file)
		}
	}
	for name, r := range map[string]model.Report{"alone": alone(t), "story": goldenReport(t), "hostile": hostile(t)} {
		var page bytes.Buffer
		require.NoError(t, render.HTML(&page, r))
		file := filepath.Join(t.TempDir(), name+".html")
		require.NoError(t, os.WriteFile(file, page.Bytes(), 0o644))
		cmd := exec.CommandContext(t.Context(), node, "browser/check.mjs", file)
		cmd.Env = append(os.Environ(), "CHROMIUM="+chromium)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
