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

// Look is how the values of a series or a column are shown.
type Look struct {
	Unit  board.Unit
	Scale board.Scale
	Words []board.Word
	Hue   board.Colour // in place of the scale's, if not empty
}

// LookOf is the look of a panel's series.
func LookOf(p board.Panel, name string) Look {
	l := Look{Unit: p.Unit, Scale: p.Scale, Words: p.Words}
	if i := slices.IndexFunc(p.Hues, func(h board.Hue) bool { return h.Name == name }); i >= 0 {
		l.Hue = p.Hues[i].Colour
	}
	return l
}

// LookOfColumn is the look of a table's column: the panel's, where the column has no other.
func LookOfColumn(p board.Panel, c board.Column) Look {
	l := LookOf(p, "")
	l.Unit = cmp.Or(c.Unit, l.Unit)
	if len(c.Scale) > 0 {
		l.Scale = c.Scale
	}
	if len(c.Words) > 0 {
		l.Words = c.Words
	}
	return l
}

// Cell is a value as it is shown.
type Cell struct {
	Text   string
	Colour board.Colour
	Known  bool
	Value  float64
}

// Nothing is the cell of a missing value.
func Nothing() Cell { return Cell{Text: board.NA, Colour: board.Muted} }

// Show returns a value as it is shown. NaN is a missing value.
func (l Look) Show(v float64) Cell {
	if math.IsNaN(v) {
		return Nothing()
	}
	c := Cell{Known: true, Value: v, Text: Format(v, l.Unit), Colour: l.Scale.At(v)}
	if l.Hue != "" {
		c.Colour = l.Hue
	}
	for _, w := range l.Words {
		if w.Value == v {
			c.Text, c.Colour = w.Text, w.Colour
		}
	}
	return c
}

// Format formats a value in a unit, as short as is distinct.
func Format(v float64, unit board.Unit) string {
	switch unit {
	case board.Percent:
		return short(v*100) + "%"
	case board.Seconds:
		return duration(v)
	case board.Bytes:
		return scaled(v, 1024, []string{" B", " KiB", " MiB", " GiB", " TiB", " PiB"})
	case board.Watts:
		return scaled(v, 1000, []string{" W", " kW", " MW"})
	case board.KWh:
		return short(v) + " kWh"
	case board.Celsius:
		return short(v) + " °C"
	case board.PerSec:
		return short(v) + "/s"
	case board.Number:
		return scaled(v, 1000, []string{"", " K", " Mil", " Bil"})
	}
	return short(v)
}

// short keeps three digits.
func short(v float64) string {
	decimals := 2
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		decimals = 0
	case a >= 10:
		decimals = 1
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func scaled(v, base float64, names []string) string {
	i := 0
	for math.Abs(v) >= base && i < len(names)-1 {
		v, i = v/base, i+1
	}
	return short(v) + names[i]
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
