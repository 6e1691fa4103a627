package eval

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/helpers/templates"

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

// Format writes a value in a unit, with about three significant digits.
func Format(v float64, unit board.Unit) string {
	base, name, powers := 1000.0, "", []string{"", "k", "M", "G", "T", "P"}
	switch unit {
	case board.Percent:
		return digits(v*100) + "%"
	case board.Celsius:
		return digits(v) + " °C"
	case board.Count:
		return digits(v)
	case board.Seconds:
		text, _ := templates.HumanizeDuration(v) // it refuses no float
		return strings.TrimSuffix(text, " 0s")
	case board.Bytes:
		base, name, powers = 1024, "B", []string{"", "Ki", "Mi", "Gi", "Ti", "Pi"}
	case board.Watts:
		name = "W"
	case board.KWh:
		v, name = v*1000, "Wh"
	case board.PerSec:
		name = "ops/s"
	}
	power := 0
	for ; math.Abs(v) >= base && power < len(powers)-1; power++ {
		v /= base
	}
	return strings.TrimSpace(digits(v) + " " + powers[power] + name)
}

// digits writes three significant digits, and all digits before the decimal point.
func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	factor := math.Pow(10, max(0, 2-math.Floor(math.Log10(math.Abs(v)))))
	return strconv.FormatFloat(math.Round(v*factor)/factor, 'f', -1, 64)
}
