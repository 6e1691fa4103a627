package eval

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
)

// Cell is a value as shown.
type Cell struct {
	Text   string
	Colour board.Colour
	Known  bool
	Value  float64
}

// Nothing is the cell of a missing value.
func Nothing() Cell { return Cell{Text: board.NA, Colour: board.Muted, Value: math.NaN()} }

// Show returns how a panel shows a value of one of its series. NaN is a missing value.
func Show(p board.Panel, series string, v float64) Cell {
	if math.IsNaN(v) {
		return Nothing()
	}
	c := Cell{Known: true, Value: v, Text: Format(v, p.Unit), Colour: cmp.Or(Hue(p, series), p.Scale.At(v))}
	for _, w := range p.Words {
		if w.Value == v {
			c.Text, c.Colour = w.Text, w.Colour
		}
	}
	return c
}

// Hue is the colour that a panel gives a series by its name, empty for none.
func Hue(p board.Panel, series string) board.Colour {
	if i := slices.IndexFunc(p.Hues, func(h board.Hue) bool { return h.Name == series }); i >= 0 {
		return p.Hues[i].Colour
	}
	return ""
}

// ofColumn returns the panel with the column's own unit, scale and words where the column has them.
func ofColumn(p board.Panel, c board.Column) board.Panel {
	p.Unit = cmp.Or(c.Unit, p.Unit)
	if len(c.Scale) > 0 {
		p.Scale = c.Scale
	}
	if len(c.Words) > 0 {
		p.Words = c.Words
	}
	return p
}

// scale lists the names of a unit's powers of a base.
type scale struct {
	base  float64
	names []string
	one   int // the place of the unit's own name
	unit  string
}

var si = []string{" f", " p", " n", " µ", " m", " ", " k", " M", " G", " T", " P"}

// scales has Grafana's units that are shown with a power.
var scales = map[board.Unit]scale{
	board.Number: {1000, []string{"", " K", " Mil", " Bil", " Tri", " Quadr"}, 0, ""},
	board.Bytes:  {1024, []string{" B", " KiB", " MiB", " GiB", " TiB", " PiB"}, 0, ""},
	board.Watts:  {1000, si, slices.Index(si, " "), "W"},
	board.KWh:    {1000, si, slices.Index(si, " k"), "Wh"},
	board.PerSec: {1000, []string{"", "K", "M", "B", "T"}, 0, " ops/s"},
}

// Format writes a value in a unit as Grafana does.
func Format(v float64, unit board.Unit) string {
	number, name := inUnit(v, unit)
	return digits(number) + name
}

// Tick formats a value beside an axis. Like Grafana, it leaves out trailing zeros.
func Tick(v float64, unit board.Unit) string {
	number, name := inUnit(v, unit)
	text := digits(number)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + name
}

// inUnit returns the number to write and the text behind it.
func inUnit(v float64, unit board.Unit) (number float64, name string) {
	switch unit {
	case board.Percent:
		return v * 100, "%"
	case board.Seconds:
		return duration(v)
	case board.Celsius:
		return v, " °C"
	}
	s, ok := scales[unit]
	if !ok {
		return v, ""
	}
	power := 0
	if v != 0 {
		power = int(math.Floor(math.Log10(math.Abs(v)) / math.Log10(s.base)))
	}
	power = min(max(power, -s.one), len(s.names)-1-s.one)
	return v / math.Pow(s.base, float64(power)), s.names[s.one+power] + s.unit
}

// digits writes three significant digits, and never drops digits before the decimal point. Whole numbers get
// no decimals.
func digits(v float64) string {
	decimals := 0
	if v != math.Trunc(v) {
		decimals = max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	}
	factor := math.Pow(10, float64(decimals))
	return strconv.FormatFloat(math.Floor(v*factor+0.5)/factor, 'f', decimals, 64)
}

// duration uses the largest unit that gives at least one.
func duration(v float64) (number float64, name string) {
	for _, u := range []struct {
		from, of float64
		name     string
	}{{31_536_000, 31_556_900, " year"}, {604_800, 604_800, " week"}, {86_400, 86_400, " day"}, {3600, 3600, " hour"}, {60, 60, " min"}} {
		if math.Abs(v) < u.from {
			continue
		}
		if number = v / u.of; math.Abs(number) > 1 {
			u.name += "s"
		}
		return number, u.name
	}
	switch a := math.Abs(v); {
	case a >= 1 || a == 0:
		return v, " s"
	case a >= 1e-3:
		return v * 1e3, " ms"
	case a >= 1e-6:
		return v * 1e6, " µs"
	}
	return v * 1e9, " ns"
}
