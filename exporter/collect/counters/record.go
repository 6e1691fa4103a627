package counters

import (
	"fmt"
	"strings"
)

// parser gathers a file's fields and mistakes.
type parser struct {
	name     string
	file     File
	mistakes []error
	lines    map[string]int // first line of a series name
}

// take reads one record. Of two lines for one series the first is served:
// dcgm-exporter serves both, and Prometheus keeps the first it reads.
func (p *parser) take(line int, record []string) {
	for i := range record {
		record[i] = strings.TrimSpace(record[i])
	}
	if len(record) == 1 && record[0] == "" {
		return // a line of blanks
	}
	field, mistake, warning := parseRecord(record)
	if mistake != nil {
		mistake.File, mistake.Line = p.name, line
		p.mistakes = append(p.mistakes, mistake)
		return
	}
	if first, again := p.lines[field.Name]; again {
		p.warn(line, &Error{Column: "field", Reason: fmt.Sprintf("%s is on line %d already; this line is left out", field.Name, first)})
		return
	}
	if warning != nil {
		p.warn(line, warning)
	}
	p.lines[field.Name] = line
	p.file.Fields = append(p.file.Fields, field)
}

func (p *parser) warn(line int, e *Error) {
	e.File, e.Line = p.name, line
	p.file.Warnings = append(p.file.Warnings, e)
}

func parseRecord(record []string) (f Field, mistake, warning *Error) {
	if len(record) != 3 {
		return f, &Error{Reason: fmt.Sprintf("%d columns, want 3: field, type, help (a help with commas needs double quotes)", len(record))}, nil
	}
	f, mistake = parseField(record[0])
	if mistake != nil {
		return f, mistake, nil
	}
	f.Kind, f.Help = Kind(record[1]), record[2]
	switch f.Kind {
	case Gauge, Counter, Untyped:
		return f, nil, nil
	case Label:
		if f.Computed() {
			return f, &Error{Column: "type", Reason: f.Name + " is a count and cannot be a label; use gauge or counter"}, nil
		}
		return f, nil, nil
	case "histogram", "summary":
		kind := f.Kind
		f.Kind = Untyped
		return f, nil, &Error{Column: "type", Reason: fmt.Sprintf("%s is one number and no %s; it is served untyped", f.Name, kind)}
	}
	return f, &Error{Column: "type", Reason: fmt.Sprintf("%q is not a type, want gauge, counter, untyped or label%s", record[1], meant(record[1]))}, nil
}

// meant guesses a mistyped type.
func meant(word string) string {
	best, bestDistance := "", 3
	for _, kind := range []Kind{Gauge, Counter, Label, Untyped} {
		if d := distance(strings.ToLower(word), string(kind), bestDistance); d < bestDistance {
			best, bestDistance = string(kind), d
		}
	}
	if best == "" {
		return ""
	}
	return ", did you mean " + best + "?"
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
	return f, nil
}
