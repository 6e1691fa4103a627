package counters

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	_ "embed"
)

//go:embed default-counters.csv
var defaultText string

// Kind is a counter's Prometheus type, or Label for a field whose value becomes
// a label of every other series of its entity.
type Kind string

// Kinds of counter. DCGM has scalars only, so the file's "histogram" and
// "summary" are refused with a reason.
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
	return Parse("default-counters.csv", strings.NewReader(defaultText))
}

// Parse reads a counters file: "FIELD, type, help" lines, '#' comments. name is
// used in errors. All mistakes are returned together, each an *Error; a file
// with mistakes gives no fields.
func Parse(name string, r io.Reader) ([]Field, error) {
	reader := csv.NewReader(r)
	reader.Comment = '#'
	reader.FieldsPerRecord = -1
	reader.TrimLeadingSpace = true // a quoted help may stand after ", "
	var (
		fields   []Field
		mistakes []error
		lines    = map[string]int{}
	)
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			mistakes = append(mistakes, readError(name, err))
			if !errors.As(err, new(*csv.ParseError)) {
				break
			}
			continue
		}
		line, _ := reader.FieldPos(0)
		field, mistake := parseRecord(record)
		if first, again := lines[field.Name]; mistake == nil && again {
			mistake = &Error{Column: "field", Reason: fmt.Sprintf("%s stands on line %d already", field.Name, first)}
		}
		if mistake != nil {
			mistake.File, mistake.Line = name, line
			mistakes = append(mistakes, mistake)
			continue
		}
		lines[field.Name] = line
		fields = append(fields, field)
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes...)
	}
	if len(fields) == 0 {
		return nil, &Error{File: name, Line: 1, Reason: "the file has no counters: every line is empty or a comment"}
	}
	return fields, nil
}

func readError(name string, err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &Error{File: name, Line: parse.Line, Reason: fmt.Sprintf("not CSV at column %d: %v", parse.Column, parse.Err)}
	}
	return fmt.Errorf("reading %s: %w", name, err)
}

func parseRecord(record []string) (Field, *Error) {
	for i := range record {
		record[i] = strings.TrimSpace(record[i])
	}
	if len(record) != 3 {
		return Field{}, &Error{Reason: fmt.Sprintf("%d columns, want 3: field, type, help (a help with commas needs double quotes)", len(record))}
	}
	f := Field{Name: record[0], Kind: Kind(record[1]), Help: record[2]}
	if strings.HasPrefix(f.Name, "DCGM_EXP_") {
		return f, &Error{Column: "field", Reason: f.Name + " is computed by dcgm-exporter and not available here yet; comment the line out"}
	}
	id, ok := FieldID(f.Name)
	if !ok {
		reason := fmt.Sprintf("no DCGM field is called %q", f.Name)
		if near := nearest(f.Name); near != "" {
			reason += ", did you mean " + near + "?"
		}
		return f, &Error{Column: "field", Reason: reason}
	}
	f.ID = id
	if f.Name[0] >= '0' && f.Name[0] <= '9' {
		f.Name = FieldName(id)
	}
	switch f.Kind {
	case Gauge, Counter, Label, Untyped:
		return f, nil
	case "histogram", "summary":
		return f, &Error{Column: "type", Reason: fmt.Sprintf("a DCGM field is one number and cannot be a %s; use gauge or counter", f.Kind)}
	}
	return f, &Error{Column: "type", Reason: fmt.Sprintf("%q is not a type, want gauge, counter, untyped or label", record[1])}
}
