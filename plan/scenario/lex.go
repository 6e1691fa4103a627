package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// statement is one logical line: a verb, plain words, and words with values.
type statement struct {
	line   int // of its beginning, from 1
	verb   string
	words  []string
	quoted bool // the first word was: a brace in it is literal
	fields []field
}

// field is key=value or key=(item item …).
type field struct {
	key   string
	value string
	list  []item
	isSet bool // has "="
	many  bool // has parentheses
}

// item is one entry of a list: segments separated by ":", each name[=value].
type item []segment

type segment struct {
	name, value string
	isSet       bool
}

// split cuts a text into statements.
func split(text string) ([]statement, error) {
	type logical struct {
		line int
		text string
	}
	var lines []logical
	for i, l := range strings.Split(text, "\n") {
		l = strings.TrimSuffix(l, "\r")
		blank := strings.TrimSpace(l) == ""
		switch {
		case blank || strings.HasPrefix(strings.TrimSpace(l), "#"):
		case (l[0] == ' ' || l[0] == '\t') && len(lines) > 0:
			lines[len(lines)-1].text += " " + strings.TrimSpace(l)
		default:
			lines = append(lines, logical{i + 1, l})
		}
	}
	var out []statement
	for _, l := range lines {
		s, err := parseStatement(l.text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.line, err)
		}
		s.line = l.line
		out = append(out, s)
	}
	return out, nil
}

// lexer reads one logical line.
type lexer struct {
	s   string
	pos int
}

func parseStatement(line string) (statement, error) {
	x := &lexer{s: line}
	x.blanks()
	verb, err := x.atom(topStops)
	if err != nil {
		return statement{}, err
	}
	s := statement{verb: verb}
	for x.blanks(); x.pos < len(x.s); x.blanks() {
		quoted := x.peek('"')
		f, err := x.field()
		if err != nil {
			return statement{}, fmt.Errorf("%s: column %d: %w", verb, x.pos+1, err)
		}
		if !f.isSet && len(s.fields) == 0 && len(s.words) == 0 {
			s.words, s.quoted = append(s.words, f.key), quoted
			continue
		}
		s.fields = append(s.fields, f)
	}
	return s, nil
}

// Characters that end an atom, at the top level and inside a list.
const (
	topStops  = " \t()=,\""
	listStops = " \t()=,:\""
)

func (x *lexer) blanks() {
	for x.pos < len(x.s) && (x.s[x.pos] == ' ' || x.s[x.pos] == '\t' || x.s[x.pos] == ',') {
		x.pos++
	}
}

func (x *lexer) peek(c byte) bool { return x.pos < len(x.s) && x.s[x.pos] == c }

// atom reads a quoted or a plain word.
func (x *lexer) atom(stops string) (string, error) {
	if x.peek('"') {
		q, err := strconv.QuotedPrefix(x.s[x.pos:])
		if err != nil {
			return "", fmt.Errorf("a quoted word that does not end")
		}
		x.pos += len(q)
		return strconv.Unquote(q)
	}
	end := strings.IndexAny(x.s[x.pos:], stops)
	if end < 0 {
		end = len(x.s) - x.pos
	}
	if end == 0 {
		return "", fmt.Errorf("want a word, found %q", x.s[x.pos:min(x.pos+1, len(x.s))])
	}
	word := x.s[x.pos : x.pos+end]
	x.pos += end
	return word, nil
}

func (x *lexer) field() (field, error) {
	key, err := x.atom(topStops)
	if err != nil || !x.peek('=') {
		return field{key: key}, err
	}
	x.pos++
	f := field{key: key, isSet: true}
	if !x.peek('(') {
		at := x.pos
		if f.value, err = x.atom(topStops); err != nil || !x.peek('=') {
			return f, err
		}
		x.pos, f.value, f.many = at, "", true // one item of a list: "part:core=500"
		it, err := x.item()
		f.list = []item{it}
		return f, err
	}
	x.pos++
	f.many = true
	for {
		x.blanks()
		if x.pos == len(x.s) {
			return f, fmt.Errorf("a list that does not end")
		}
		if x.peek(')') {
			x.pos++
			return f, nil
		}
		it, err := x.item()
		if err != nil {
			return f, err
		}
		f.list = append(f.list, it)
	}
}

func (x *lexer) item() (item, error) {
	var it item
	for {
		name, err := x.atom(listStops)
		if err != nil {
			return nil, err
		}
		s := segment{name: name}
		if x.peek('=') {
			x.pos++
			s.isSet = true
			if s.value, err = x.atom(listStops); err != nil {
				return nil, err
			}
		}
		it = append(it, s)
		if !x.peek(':') {
			return it, nil
		}
		x.pos++
	}
}

// quote writes a word so that atom reads it back.
func quote(s string) string {
	plain := s != "" && utf8.ValidString(s) && s[0] != '#'
	for _, r := range s {
		if r <= ' ' || r == 0x7f || r == '{' || strings.ContainsRune(listStops, r) || !strconv.IsPrint(r) {
			plain = false
		}
	}
	if plain {
		return s
	}
	return strconv.Quote(s)
}
