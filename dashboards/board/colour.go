package board

// Colour is a colour by what it means. Grafana's own names are used where it has
// one, since its themes adjust them.
type Colour string

// Colours. Good is the only one that says "all is well"; a panel without data must
// never show it.
const (
	Good  Colour = "green"
	Watch Colour = "yellow" // not wrong yet
	Warn  Colour = "orange" // waste, or soon wrong
	Bad   Colour = "red"
	Plain Colour = "blue"    // a number that is neither good nor bad
	Quiet Colour = "#8e8e8e" // nothing is known, or nothing is there
	Ink   Colour = "text"    // the theme's own colour of text
)

// Step says from which value on a colour holds.
type Step struct {
	From   float64 // ignored for the first step, which holds from minus infinity
	Colour Colour
}

// Scale judges values. The first step has no lower end.
type Scale []Step

// Neutral passes no judgement.
func Neutral() Scale { return Scale{{Colour: Plain}} }

// Rising is good below watch, and bad from bad on.
func Rising(watch, bad float64) Scale {
	return Scale{{Colour: Good}, {watch, Watch}, {bad, Bad}}
}

// Falling is bad below watch, and good from good on.
func Falling(watch, good float64) Scale {
	return Scale{{Colour: Bad}, {watch, Watch}, {good, Good}}
}

// NoneIsPlain is neutral at zero and bad from the first on: for events whose series
// begin with the first event, so that zero is no proof of health.
func NoneIsPlain() Scale { return Scale{{Colour: Ink}, {1, Bad}} }

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

// States are the hues of the states of a card and of the places where its time
// goes: the same on every board, and in the report.
func States() []Hue {
	return []Hue{
		{"busy", Good}, {"held", "#3274d9"},
		{"slack", "#c8d96f"}, {"idle", Warn}, {"unmeasured", "#b5b5b5"},
		{"free", "#8ab8ff"}, {"fragmented", "#b877d9"}, {"stranded", "#8f3bb8"},
		{"cordoned", "#a67c52"}, {"cutting", "#33a2a8"}, {"booting", "#d5c4f7"},
		{"unready", "#ff7383"}, {"sick", Bad}, {"unknown", Quiet},
	}
}
