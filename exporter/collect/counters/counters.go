package counters

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	_ "embed"
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

// Operator returns the counters of the other file in dcgm-exporter's image,
// dcp-metrics-included.csv, which NVIDIA's GPU Operator asks for: the default ones
// and retired pages.
func Operator() ([]Field, error) {
	file, err := Parse("dcp-metrics-included.csv", strings.NewReader(defaultText+`
DCGM_FI_DEV_RETIRED_SBE, counter, Total number of retired pages due to single-bit errors.
DCGM_FI_DEV_RETIRED_DBE, counter, Total number of retired pages due to double-bit errors.
`))
	return file.Fields, err
}

// maxText bounds a counters file: DCGM has some 700 fields, a line is short.
const maxText = 4 << 20

// maxMistakes ends the reading of what is no counters file at all.
const maxMistakes = 100

// indented comments are records to the CSV reader, and their quotes mistakes.
var indented = regexp.MustCompile(`(?m)^[ \t]+#`)

// Parse reads a counters file: "FIELD, type, help" lines, '#' comments, with or
// without a byte order mark, either line ending. name is used in errors. All
// mistakes are returned together, each an *Error; a file with mistakes gives no
// fields.
func Parse(name string, r io.Reader) (File, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err != nil {
		return File{}, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(text) > maxText {
		return File{}, &Error{File: name, Line: 1, Reason: fmt.Sprintf("longer than %d bytes: this is no counters file", maxText)}
	}
	text = indented.ReplaceAll(bytes.TrimPrefix(text, []byte("\uFEFF")), []byte("#"))
	p := parser{name: name, lines: map[string]int{}}
	reader := csv.NewReader(bytes.NewReader(text))
	reader.Comment = '#'
	reader.FieldsPerRecord = -1
	reader.TrimLeadingSpace = true // a quoted help may stand after ", "
	for len(p.mistakes) < maxMistakes {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.mistakes = append(p.mistakes, readError(name, err))
			continue // the next line can be read
		}
		line, _ := reader.FieldPos(0)
		p.take(line, record)
	}
	if len(p.mistakes) > 0 {
		return File{}, errors.Join(p.mistakes...)
	}
	if len(p.file.Fields) == 0 {
		return File{}, &Error{File: name, Line: 1, Reason: "the file has no counters: every line is empty or a comment"}
	}
	return p.file, nil
}

func readError(name string, err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &Error{File: name, Line: parse.Line, Reason: fmt.Sprintf("not CSV at column %d: %v; put a help with quotes or commas in double quotes and double its own quotes", parse.Column, parse.Err)}
	}
	return fmt.Errorf("reading %s: %w", name, err)
}
