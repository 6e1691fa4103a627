package eval

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// Field is how the values of one series or column are shown: the panel's defaults
// with the overrides for its name.
type Field struct {
	dashboard.FieldConfig
	Style map[string]any // the kind's own settings
}

// FieldOf returns the field of a name. Unknown settings are ignored.
func FieldOf(p dashboard.Panel, name string) Field {
	f := Field{Style: map[string]any{}}
	if p.FieldConfig == nil {
		return f
	}
	f.FieldConfig = p.FieldConfig.Defaults
	into(p.FieldConfig.Defaults.Custom, &f.Style)
	for _, o := range p.FieldConfig.Overrides {
		if matches(o.Matcher, name) {
			for _, property := range o.Properties {
				f.set(property)
			}
		}
	}
	return f
}

func matches(m dashboard.MatcherConfig, name string) bool {
	want, _ := m.Options.(string)
	switch m.Id {
	case "byName":
		return want == name
	case "byRegexp":
		if expr, ok := strings.CutPrefix(want, "/"); ok {
			re, err := regexp.Compile(strings.TrimSuffix(expr, "/"))
			return err == nil && re.MatchString(name)
		}
	}
	return false
}

func (f *Field) set(p dashboard.DynamicConfigValue) {
	switch p.Id {
	case "unit":
		unit, _ := p.Value.(string)
		f.Unit = &unit
	case "color":
		f.Color = &dashboard.FieldColor{}
		into(p.Value, f.Color)
	case "thresholds":
		f.Thresholds = &dashboard.ThresholdsConfig{}
		into(p.Value, f.Thresholds)
	case "mappings":
		f.Mappings = nil
		into(p.Value, &f.Mappings)
	case "links":
		f.Links = nil
		into(p.Value, &f.Links)
	default:
		if name, ok := strings.CutPrefix(p.Id, "custom."); ok {
			f.Style[name] = p.Value
		}
	}
}

// into reads plain JSON values into a type of the schema; what does not fit stays
// empty.
func into(from, to any) {
	if text, err := json.Marshal(from); err == nil && string(text) != "null" {
		_ = json.Unmarshal(text, to)
	}
}

// Cell is a value as it is shown.
type Cell struct {
	Text   string
	Colour string // Grafana's name, or #rrggbb; empty where the value is not judged
	Known  bool
	Value  float64
}

// Nothing is the cell of a missing value.
func (f Field) Nothing() Cell {
	c := Cell{Text: "-"} // Grafana's default
	if f.NoValue != nil {
		c.Text = *f.NoValue
	}
	if special := f.special(); special != nil && special.Color != nil {
		c.Colour = *special.Color
	}
	return c
}

// Show returns a value as it is shown. NaN is a missing value.
func (f Field) Show(v float64) Cell {
	if math.IsNaN(v) {
		c := f.Nothing()
		if special := f.special(); special != nil && special.Text != nil {
			c.Text = *special.Text
		}
		return c
	}
	c := Cell{Known: true, Value: v, Text: Format(v, f.unit(), f.Decimals), Colour: f.judge(v)}
	for _, m := range f.Mappings {
		if m.ValueMap == nil {
			continue
		}
		if r, ok := m.ValueMap.Options[strconv.FormatFloat(v, 'f', -1, 64)]; ok {
			if r.Text != nil {
				c.Text = *r.Text
			}
			if r.Color != nil {
				c.Colour = *r.Color
			}
		}
	}
	return c
}

func (f Field) special() *dashboard.ValueMappingResult {
	for _, m := range f.Mappings {
		if s := m.SpecialValueMap; s != nil && s.Options.Match == dashboard.SpecialValueMatchNullAndNan {
			return &s.Options.Result
		}
	}
	return nil
}

// judge returns the colour of the last threshold reached.
func (f Field) judge(v float64) string {
	if f.Color != nil && f.Color.Mode == dashboard.FieldColorModeIdFixed && f.Color.FixedColor != nil {
		return *f.Color.FixedColor
	}
	colour := ""
	if f.Thresholds != nil {
		for _, s := range f.Thresholds.Steps {
			if s.Value == nil || v >= *s.Value {
				colour = s.Color
			}
		}
	}
	return colour
}

func (f Field) unit() string {
	if f.Unit == nil {
		return ""
	}
	return *f.Unit
}

// Format formats a value in a unit of Grafana's, as short as is distinct. With nil
// decimals the unit decides.
func Format(v float64, unit string, decimals *float64) string {
	digits := func(v float64) string {
		if decimals != nil {
			return strconv.FormatFloat(v, 'f', int(*decimals), 64)
		}
		return short(v)
	}
	switch unit {
	case "percentunit":
		return digits(v*100) + "%"
	case "s":
		return duration(v, digits)
	case "bytes":
		return scaled(v, 1024, []string{" B", " KiB", " MiB", " GiB", " TiB", " PiB"}, digits)
	case "watt":
		return scaled(v, 1000, []string{" W", " kW", " MW"}, digits)
	case "kwatth":
		return digits(v) + " kWh"
	case "celsius":
		return digits(v) + " °C"
	case "ops":
		return digits(v) + "/s"
	case "short":
		return scaled(v, 1000, []string{"", " K", " Mil", " Bil"}, digits)
	}
	return digits(v)
}

// short keeps three digits.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return trim(strconv.FormatFloat(v, 'f', 1, 64))
	}
	return trim(strconv.FormatFloat(v, 'f', 2, 64))
}

func trim(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func scaled(v, base float64, names []string, digits func(float64) string) string {
	i := 0
	for math.Abs(v) >= base && i < len(names)-1 {
		v, i = v/base, i+1
	}
	return digits(v) + names[i]
}

func duration(v float64, digits func(float64) string) string {
	for _, u := range []struct {
		of   float64
		name string
	}{{86400, "day"}, {3600, "hour"}, {60, "min"}} {
		if math.Abs(v) >= u.of {
			return fmt.Sprintf("%s %s%s", digits(v/u.of), u.name, plural(u.name, v/u.of))
		}
	}
	if v != 0 && math.Abs(v) < 1 {
		return digits(v*1000) + " ms"
	}
	return digits(v) + " s"
}

func plural(name string, v float64) string {
	if name != "min" && short(v) != "1" {
		return "s"
	}
	return ""
}
