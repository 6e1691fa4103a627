package eval_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

func TestFill(t *testing.T) {
	w := eval.Window{From: time.Unix(0, 0), To: time.Unix(1800, 0), Step: 10 * time.Second, Scrape: 15 * time.Second}
	b := board.Board{Vars: []board.Var{{Name: "pool"}, {Name: "cluster"}}}
	for _, c := range []struct{ in, want string }{
		{`x{pool=~"$pool",cluster=~"${cluster}"}`, `x{pool=~".*",cluster=~".*"}`},
		{`rate(x[$__rate_interval])`, `rate(x[60s])`},
		{`increase(x[$__range]) / $__interval`, `increase(x[1800s]) / 10s`},
		{`label_replace(x,"a","$1","b","(.+)")`, `label_replace(x,"a","$1","b","(.+)")`},
	} {
		if got, err := eval.Fill(c.in, b, w); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.in, got, err, c.want)
		}
	}
	if got, err := eval.Fill(`x{a="$unknown"}`, b, w); err == nil {
		t.Errorf("an unknown variable was filled in: %s", got)
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit board.Unit
		want string
	}{
		{0.4349, board.Percent, "43.5%"}, {1, board.Percent, "100%"}, {0.00051713, board.Percent, "0.0517%"},
		{0, board.Seconds, "0s"}, {0.0012, board.Seconds, "1.2ms"}, {90, board.Seconds, "1m 30s"}, {3600, board.Seconds, "1h 0m"},
		{1 << 30, board.Bytes, "1 GiB"}, {1536, board.Bytes, "1.5 KiB"}, {0.5, board.Bytes, "0.5 B"},
		{7000, board.Watts, "7 kW"}, {0.25, board.Watts, "0.25 W"}, {0, board.Watts, "0 W"}, {12345, board.KWh, "12.3 MWh"}, {0.31, board.KWh, "310 Wh"},
		{12345, board.Number, "12.3 k"}, {0.571428, board.Number, "0.571"}, {12345, board.Count, "12345"}, {-2.5, board.Count, "-2.5"},
		{0.25, board.PerSec, "0.25 ops/s"}, {12345, board.PerSec, "12.3 kops/s"}, {45.02, board.Celsius, "45 °C"},
	} {
		if got := eval.Format(c.v, c.unit); got != c.want {
			t.Errorf("%v in %s: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

// NaN and missing values are n/a in grey, whatever the thresholds.
func TestShow(t *testing.T) {
	p := board.Panel{Unit: board.Percent, Scale: board.Falling(0.2, 0.5)}
	for _, c := range []struct {
		v      float64
		text   string
		colour board.Colour
		known  bool
	}{
		{0, "0%", board.Bad, true}, {0.2, "20%", board.Watch, true}, {0.5, "50%", board.Good, true}, {math.NaN(), board.NA, board.Muted, false},
	} {
		if got := eval.Show(p, "", c.v); got.Text != c.text || got.Colour != c.colour || got.Known != c.known {
			t.Errorf("%v: %+v", c.v, got)
		}
	}
	words := board.Panel{Unit: board.Count, Words: board.YesNo("in force", board.Good, "kept", board.Bad)}
	if got := eval.Show(words, "", 0); got.Text != "kept" || got.Colour != board.Bad {
		t.Errorf("a word: %+v", got)
	}
}

// FuzzFill: a text without variables stays as it is, and none makes it panic.
func FuzzFill(f *testing.F) {
	f.Add(`x{a=~"$pool"}[$__range]`)
	f.Add(`$`)
	f.Add("${a:b}$1")
	f.Fuzz(func(t *testing.T, text string) {
		w := eval.Window{From: time.Unix(0, 0), To: time.Unix(60, 0), Step: time.Second, Scrape: time.Second}
		got, err := eval.Fill(text, board.Board{Vars: []board.Var{{Name: "pool"}}}, w)
		if !strings.Contains(text, "$") && (err != nil || got != text) {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	})
}

// TestHappened: events are counted in the time in which they happened, whatever the counter's value at its beginning.
// There is a value every five minutes; those of the last twenty minutes count.
func TestHappened(t *testing.T) {
	end := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, values string
		want         float64
	}{
		{"nothing", "7 7 7 7 7 7 7", 0},
		{"begins with its first event", "_ _ _ _ _ 1 1", 1},
		{"begins with several", "_ _ _ _ _ 3 3", 3},
		{"Prometheus was down at the beginning", "7 7 _ _ _ 7 7 7", 0},
		{"and there were others meanwhile", "7 7 _ _ _ 9 9 9", 2},
		{"the process was restarted before, and an event came after", "7 7 stale _ _ _ _ 1 1", 1},
		{"ended", "_ _ _ _ _ 2 stale _", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			series, err := memstore.Read(`x{instance="a"} `+c.values, memstore.Until(end, 5*time.Minute))
			require.NoError(t, err)
			query, err := eval.Fill("sum("+board.Happened("x", "$__range")+")", board.Board{}, eval.Window{From: end.Add(-20 * time.Minute), To: end})
			require.NoError(t, err)
			got, err := memstore.Over(series).Query(t.Context(), query, end)
			if err != nil || len(got) != 1 || got[0].Value != c.want {
				t.Errorf("%v, %v: want %v", got, err, c.want)
			}
		})
	}
}

// TestRows: rows are sorted by their columns, numbers as numbers, and a missing value is n/a.
func TestRows(t *testing.T) {
	series, err := memstore.Read("x{gpu=\"10\",node=\"a\"} 1\nx{gpu=\"9\",node=\"a\"} 1\nx{gpu=\"1\",node=\"b\"} 1\nx{node=\"b\"} 2", memstore.From(time.Unix(0, 0), time.Minute))
	require.NoError(t, err)
	p := board.Panel{Kind: board.Table, Unit: board.Count, Queries: []board.Query{{Expr: "x"}},
		Columns: []board.Column{{Label: "node", Title: "Node"}, {Label: "gpu", Title: "GPU"}, {Value: 1, Title: "Times", Sort: true}}}
	a, err := eval.Ask(t.Context(), memstore.Over(series), board.Board{}, p, eval.Window{From: time.Unix(0, 0), To: time.Unix(0, 0)})
	require.NoError(t, err)
	var got []string
	for _, row := range a.Table.Rows {
		got = append(got, row[0].Text+" "+row[1].Text+" "+row[2].Text)
	}
	if want := "b n/a 2, a 9 1, a 10 1, b 1 1"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
