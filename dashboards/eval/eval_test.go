package eval_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/eval"
)

func TestFill(t *testing.T) {
	w := eval.Window{From: time.Unix(0, 0), To: time.Unix(1800, 0), Step: 10 * time.Second, Scrape: 15 * time.Second}
	vars := eval.Vars{"pool": "a|b", "cluster": ".*"}
	for _, c := range []struct{ in, want string }{
		{`x{pool=~"$pool",cluster=~"${cluster}"}`, `x{pool=~"a|b",cluster=~".*"}`},
		{`rate(x[$__rate_interval])`, `rate(x[60s])`},
		{`increase(x[$__range]) / $__interval`, `increase(x[1800s]) / 10s`},
		{`label_replace(x,"a","$1","b","(.+)")`, `label_replace(x,"a","$1","b","(.+)")`},
	} {
		if got, err := eval.Fill(c.in, vars, w); err != nil || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.in, got, err, c.want)
		}
	}
	if got, err := eval.Fill(`x{a="$unknown"}`, vars, w); err == nil {
		t.Errorf("an unknown variable was filled in: %s", got)
	}
}

func TestFormat(t *testing.T) {
	one := 1.0
	for _, c := range []struct {
		v        float64
		unit     string
		decimals *float64
		want     string
	}{
		{0.4349, "percentunit", nil, "43.5%"}, {1, "percentunit", nil, "100%"}, {0.5, "percentunit", &one, "50.0%"},
		{0, "s", nil, "0 s"}, {0.0012, "s", nil, "1.2 ms"}, {90, "s", nil, "1.5 min"}, {3600, "s", nil, "1 hour"}, {172800, "s", nil, "2 days"},
		{1 << 30, "bytes", nil, "1 GiB"}, {1536, "bytes", nil, "1.5 KiB"}, {7000, "watt", nil, "7 kW"}, {12.34, "kwatth", nil, "12.3 kWh"},
		{12345, "short", nil, "12.3 K"}, {12345, "none", nil, "12345"}, {0.25, "ops", nil, "0.25/s"}, {-2.5, "none", nil, "-2.5"},
	} {
		if got := eval.Format(c.v, c.unit, c.decimals); got != c.want {
			t.Errorf("%v in %s: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

// field of a panel that is written as boards are.
func field(t *testing.T, p board.Panel) eval.Field {
	t.Helper()
	p.Kind, p.Title, p.About, p.Absent, p.Queries = board.Stat, "Title", "About", "absent", []board.Query{{Expr: "x"}}
	d, err := board.Grafana(board.Board{UID: "u", Title: "T", About: "A", Rows: []board.Row{{Title: "R", Panels: []board.Panel{p}}}})
	if err != nil {
		t.Fatal(err)
	}
	return eval.FieldOf(eval.Panels(d)[0], "Title")
}

// NaN and missing values are n/a in grey, whatever the thresholds.
func TestShow(t *testing.T) {
	f := field(t, board.Panel{Unit: board.Percent, Scale: board.Falling(0.2, 0.5)})
	for _, c := range []struct {
		v      float64
		text   string
		colour board.Colour
		known  bool
	}{
		{0, "0%", board.Bad, true}, {0.2, "20%", board.Watch, true}, {0.5, "50%", board.Good, true}, {math.NaN(), board.NA, board.Muted, false},
	} {
		if got := f.Show(c.v); got.Text != c.text || got.Colour != string(c.colour) || got.Known != c.known {
			t.Errorf("%v: %+v", c.v, got)
		}
	}
	if got := f.Nothing(); got.Text != board.NA || got.Colour != string(board.Muted) || got.Known {
		t.Errorf("nothing: %+v", got)
	}
	words := field(t, board.Panel{Unit: board.Count, Words: board.YesNo("in force", board.Good, "kept", board.Bad)})
	if got := words.Show(0); got.Text != "kept" || got.Colour != string(board.Bad) {
		t.Errorf("a word: %+v", got)
	}
}

// FuzzLoad: no text makes reading a board panic, and a board that is read has panels and
// fields.
func FuzzLoad(f *testing.F) {
	for _, b := range boards.All()[:2] {
		text, err := board.JSON(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"annotations":{"list":[{"name":"a","titleFormat":1}]}}`))
	f.Add([]byte(`{"annotations":{"list":7}}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		d, _, err := eval.Load(text)
		if err != nil {
			return
		}
		for _, p := range eval.Panels(d) {
			eval.FieldOf(p, "x").Show(1)
		}
	})
}

// FuzzFill: a text without variables stays as it is, and none makes it panic.
func FuzzFill(f *testing.F) {
	f.Add(`x{a=~"$pool"}[$__range]`)
	f.Add(`$`)
	f.Add("${a:b}$1")
	f.Fuzz(func(t *testing.T, text string) {
		w := eval.Window{From: time.Unix(0, 0), To: time.Unix(60, 0), Step: time.Second, Scrape: time.Second}
		got, err := eval.Fill(text, eval.Vars{"pool": "p"}, w)
		if !strings.Contains(text, "$") && (err != nil || got != text) {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	})
}
