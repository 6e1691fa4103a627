package counters

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed default-counters.csv
var defaultText string

// Kind is a counter's Prometheus type, or Label for a field whose value becomes
// a label of every other series of its entity.
type Kind string

// Kinds of counter. A DCGM field is one number: what the file calls a histogram
// or a summary is served untyped.
const (
	Gauge   Kind = "gauge"
	Counter Kind = "counter"
	Label   Kind = "label"
	Untyped Kind = "untyped"
)

// Field is one line of a counters file.
type Field struct {
	ID   uint16
	Name string // the series' name
	Kind Kind
	Help string
	// Scale is what the field's value is multiplied by in the series; 0 is 1.
	Scale float64
	// Every is how often it is sampled; 0 is as often as readings are taken.
	Every time.Duration
}

// File is a counters file without mistakes.
type File struct {
	Fields []Field // in the file's order, each name once
	// Warnings are lines that dcgm-exporter accepts and that do not mean what
	// they seem to.
	Warnings []*Error
}

// Error is a mistake in a counters file.
type Error struct {
	File   string
	Line   int    // from 1
	Column string // "field", "type" or "help"; "" where the whole line is wrong
	Reason string
}

// Error reads "counters.csv:12: field: no DCGM field is called …".
func (e *Error) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Reason)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Column, e.Reason)
}

// Default returns dcgm-exporter's default counters: 25 metrics and one label.
func Default() ([]Field, error) {
	file, err := Parse("default-counters.csv", strings.NewReader(defaultText))
	return file.Fields, err
}

// maxMistakes ends the reading of what is no counters file at all.
const maxMistakes = 100

// indented matches indented comments, which the CSV reader takes for records
// and their quotes for mistakes.
var indented = regexp.MustCompile(`(?m)^[ \t]+#`)

// Parse reads a counters file: "FIELD, type, help" lines, '#' comments, with or
// without a byte order mark, either line ending. name is used in errors. All
// mistakes are returned together, each an *Error; a file with mistakes gives no
// fields. Of two lines for one series the first is served: dcgm-exporter serves
// both, and Prometheus keeps the first it reads.
func Parse(name string, r io.Reader) (file File, err error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return File{}, fmt.Errorf("reading %s: %w", name, err)
	}
	reader := csv.NewReader(bytes.NewReader(indented.ReplaceAll(bytes.TrimPrefix(text, []byte("\uFEFF")), []byte("#"))))
	reader.Comment = '#'
	reader.FieldsPerRecord = -1
	reader.TrimLeadingSpace = true // a quoted help may stand after ", "
	var mistakes []error
	lines := map[string]int{} // the first of each series
	for len(mistakes) < maxMistakes {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if parse := (*csv.ParseError)(nil); errors.As(err, &parse) { // the next line can be read
			mistakes = append(mistakes, &Error{File: name, Line: parse.Line, Reason: fmt.Sprintf(
				"not CSV at column %d: %v; put a help with quotes or commas in double quotes and double its own quotes", parse.Column, parse.Err)})
			continue
		}
		for i := range record {
			record[i] = strings.TrimSpace(record[i])
		}
		if len(record) == 1 && record[0] == "" {
			continue // a line of blanks
		}
		field, problem, served := parseRecord(record)
		line, _ := reader.FieldPos(0)
		first, again := lines[field.Name]
		if served && again {
			problem = &Error{Column: "field", Reason: fmt.Sprintf("%s is on line %d already; this line is left out", field.Name, first)}
		}
		if problem != nil {
			problem.File, problem.Line = name, line
		}
		switch {
		case !served:
			mistakes = append(mistakes, problem)
			continue
		case problem != nil:
			file.Warnings = append(file.Warnings, problem)
		}
		if !again {
			lines[field.Name] = line
			file.Fields = append(file.Fields, field)
		}
	}
	if len(mistakes) == 0 && len(file.Fields) == 0 {
		mistakes = append(mistakes, &Error{File: name, Line: 1, Reason: "the file has no counters: every line is empty or a comment"})
	}
	if len(mistakes) > 0 {
		return File{}, errors.Join(mistakes...)
	}
	return file, nil
}

// Series that dcgm-exporter computes from several fields or from events. The
// counters file asks for them by name; they have no DCGM field, so each has a
// number of its own beyond DCGM's, which identifies its Field.
const (
	XIDErrorsCount   uint16 = 9001 + iota // XIDs in a window
	ClockEventsCount                      // samples in a window with a throttle reason set
	GPUHealthStatus                       // DCGM's health watches
	P2PStatus                             // NVLink to each peer
	XIDErrorsTotal                        // XIDs since the start
	ClockEventsTotal                      // throttle reasons that set in since the start
)

// computedNames are in dcgm-exporter from 4.8.3 on.
var computedNames = map[string]uint16{
	"DCGM_EXP_XID_ERRORS_COUNT":   XIDErrorsCount,
	"DCGM_EXP_CLOCK_EVENTS_COUNT": ClockEventsCount,
	"DCGM_EXP_GPU_HEALTH_STATUS":  GPUHealthStatus,
	"DCGM_EXP_P2P_STATUS":         P2PStatus,
	"DCGM_EXP_XID_ERRORS_TOTAL":   XIDErrorsTotal,
	"DCGM_EXP_CLOCK_EVENTS_TOTAL": ClockEventsTotal,
}

// Computed reports whether the field is one of those above and no DCGM field: a
// source cannot be asked for it.
func (f Field) Computed() bool { return f.ID >= XIDErrorsCount && f.ID <= ClockEventsTotal }

// parseRecord also returns what is wrong with the record, and whether it is served all the same.
func parseRecord(record []string) (f Field, problem *Error, served bool) {
	if len(record) != 3 {
		return f, &Error{Reason: fmt.Sprintf("%d columns, want 3: field, type, help (a help with commas needs double quotes)", len(record))}, false
	}
	if f, problem = parseField(record[0]); problem != nil {
		return f, problem, false
	}
	f.Kind, f.Help = Kind(record[1]), record[2]
	switch {
	case f.Kind == Label && f.Computed():
		return f, &Error{Column: "type", Reason: f.Name + " is a count and cannot be a label; use gauge or counter"}, false
	case f.Kind == "histogram" || f.Kind == "summary":
		kind := f.Kind
		f.Kind = Untyped
		return f, &Error{Column: "type", Reason: fmt.Sprintf("%s is a single number and cannot be a %s; it is served untyped", f.Name, kind)}, true
	case !slices.Contains([]Kind{Gauge, Counter, Untyped, Label}, f.Kind):
		return f, &Error{Column: "type", Reason: fmt.Sprintf("%q is not a type, want gauge, counter, untyped or label", record[1])}, false
	}
	return f, nil, true
}

// parseField reads the first column: a DCGM field by name or number, or a
// series that the exporter computes.
func parseField(text string) (Field, *Error) {
	if id, ok := computedNames[text]; ok {
		return Field{ID: id, Name: text}, nil
	}
	id, ok := FieldID(text)
	if !ok || (Field{ID: id}).Computed() {
		reason := fmt.Sprintf("no DCGM field is called %q", text)
		if near := nearest(text); near != "" {
			reason += ", did you mean " + near + "?"
		}
		return Field{}, &Error{Column: "field", Reason: reason}
	}
	f := Field{ID: id, Name: text}
	if text[0] >= '0' && text[0] <= '9' {
		f.Name = FieldName(id)
	}
	if of, ok := table().of[id]; ok {
		f.ID, f.Scale = of.id, of.scale
	}
	return f, nil
}

// Value returns the series' value for a value of the field. It divides where it can: 7 *
// 0.01 is not 0.07.
func (f *Field) Value(v float64) float64 {
	switch {
	case f.Scale == 0:
		return v
	case f.Scale < 1:
		return v / math.Round(1/f.Scale)
	}
	return v * f.Scale
}

// NewField returns a counter of dcgm-exporter's YAML file. Errors name the key there.
func NewField(name, kind, help string) (Field, error) {
	f, problem, _ := parseRecord([]string{strings.TrimSpace(name), strings.TrimSpace(kind), help})
	if problem != nil {
		return Field{}, fmt.Errorf("%s: %s", map[string]string{"field": "name", "type": "prometheusType"}[problem.Column], problem.Reason)
	}
	return f, nil
}
