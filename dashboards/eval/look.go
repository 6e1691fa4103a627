package eval

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
)

// Cell is a value as it is shown.
type Cell struct {
	Text   string
	Colour board.Colour
	Known  bool
	Value  float64
}

// Nothing is the cell of a missing value.
func Nothing() Cell { return Cell{Text: board.NA, Colour: board.Muted, Value: math.NaN()} }

// Show returns a value of a panel's series as it is shown. NaN is a missing value.
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

// ofColumn is the panel with the unit, scale and words of one of its columns, where that has its own.
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

// units are written behind a number.
var units = map[board.Unit]string{board.KWh: " kWh", board.Celsius: " °C", board.PerSec: "/s"}

// Format formats a value in a unit, as short as is distinct.
func Format(v float64, unit board.Unit) string {
	switch unit {
	case board.Percent:
		return short(v*100) + "%"
	case board.Seconds:
		return duration(v)
	case board.Bytes:
		return scaled(v, 1024, " B", " KiB", " MiB", " GiB", " TiB", " PiB")
	case board.Watts:
		return scaled(v, 1000, " W", " kW", " MW")
	case board.Number:
		return scaled(v, 1000, "", " K", " Mil", " Bil")
	}
	return short(v) + units[unit]
}

// short keeps three digits.
func short(v float64) string {
	decimals := 2
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		decimals = 1
	}
	return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(v, 'f', decimals, 64), "0"), ".")
}

func scaled(v, base float64, names ...string) string {
	for math.Abs(v) >= base && len(names) > 1 {
		v, names = v/base, names[1:]
	}
	return short(v) + names[0]
}

func duration(v float64) string {
	for _, u := range []struct {
		of        float64
		one, more string
	}{{86400, "day", "days"}, {3600, "hour", "hours"}, {60, "min", "min"}} {
		if math.Abs(v) < u.of {
			continue
		}
		n, name := short(v/u.of), u.more
		if n == "1" {
			name = u.one
		}
		return fmt.Sprintf("%s %s", n, name)
	}
	if v != 0 && math.Abs(v) < 1 {
		return short(v*1000) + " ms"
	}
	return short(v) + " s"
}
