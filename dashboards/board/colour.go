package board

// Colour is a colour by its meaning. Where Grafana has a name for it, that name is used, so Grafana's themes
// can adjust it.
type Colour string

// Colours. Only Good means healthy; a panel without data must never show it.
const (
	Good  Colour = "green"
	Watch Colour = "yellow" // not wrong yet
	Warn  Colour = "orange" // waste, or soon wrong
	Bad   Colour = "red"
	Plain Colour = "blue"    // neither good nor bad
	Muted Colour = "#8e8e8e" // unknown, or absent
	Free  Colour = "#a8ccff" // so light that Grafana writes on it in dark
	Clear Colour = "transparent"
	Ink   Colour = "text" // the theme's own colour of text
)

// Step is the colour for values of at least From.
type Step struct {
	From   float64 // ignored for the first step, which holds from minus infinity
	Colour Colour
}

// Scale maps values to colours. The first step has no lower end.
type Scale []Step

// OrNeutral is the scale. For none it is one without a colour for good or bad.
func (s Scale) OrNeutral() Scale {
	if len(s) == 0 {
		return Scale{{Colour: Plain}}
	}
	return s
}

// At returns the colour of a value: that of the last step at or below it.
func (s Scale) At(v float64) Colour {
	all := s.OrNeutral()
	colour := all[0].Colour
	for _, step := range all[1:] {
		if v >= step.From {
			colour = step.Colour
		}
	}
	return colour
}

// Rising is good below watch, and bad from bad on.
func Rising(watch, bad float64) Scale {
	return Scale{{Colour: Good}, {watch, Watch}, {bad, Bad}}
}

// Falling is bad below watch, and good from good on.
func Falling(watch, good float64) Scale {
	return Scale{{Colour: Bad}, {watch, Watch}, {good, Good}}
}

// Word shows a value as a word in a colour.
type Word struct {
	Value  float64
	Text   string
	Colour Colour
}

// YesNo are the words of a 0-or-1 series.
func YesNo(yes string, yesColour Colour, no string, noColour Colour) []Word {
	return []Word{{1, yes, yesColour}, {0, no, noColour}}
}

// Hue gives the series of a name its colour.
type Hue struct {
	Name   string
	Colour Colour
}

// States are the hues of the states of a GPU and of the places of its time, the same on
// every board and in the report.
func States() []Hue {
	return []Hue{
		{"busy", Good}, {"allocated", "#3274d9"},
		{"slack", "#c8d96f"}, {"idle", Warn}, {"unmeasured", "#b5b5b5"},
		{"free", Free}, {"fragmented", "#b877d9"}, {"stranded", "#8f3bb8"},
		{"cordoned", "#a67c52"}, {"repartitioning", "#33a2a8"}, {"booting", "#d5c4f7"},
		{"unready", "#ff7383"}, {"sick", Bad}, {"unknown", Muted},
	}
}
