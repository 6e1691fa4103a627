package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// statement is one logical line: a verb and its words.
type statement struct {
	line   int // of its beginning, from 1
	verb   string
	words  []word
	quoted bool // the first word is quoted, so that a brace in it is literal
}

// word is key, key=value, or key=(entry entry …), where an entry is words between colons.
type word struct {
	key, value string
	isSet      bool     // has "="
	list       [][]word // its entries, nil for one value
}

// split cuts a text into statements.
func split(text string) ([]statement, error) {
	var all []statement
	var lines []string
	for i, l := range strings.Split(text, "\n") {
		switch bare := strings.TrimSpace(l); {
		case bare == "" || bare[0] == '#':
		case (l[0] == ' ' || l[0] == '\t') && len(all) > 0:
			lines[len(lines)-1] += " " + bare
		default:
			all, lines = append(all, statement{line: i + 1}), append(lines, strings.TrimSuffix(l, "\r"))
		}
	}
	for i := range all {
		if err := all[i].parse(lines[i]); err != nil {
			return nil, fmt.Errorf("line %d: %w", all[i].line, err)
		}
	}
	return all, nil
}

func (s *statement) parse(line string) (err error) {
	x := &lexer{s: line}
	x.blanks()
	if s.verb, err = x.atom(topStops); err != nil {
		return err
	}
	if name, colon := strings.CutSuffix(s.verb, ":"); colon || name == "---" || name == "{" {
		return fmt.Errorf("%s: this is YAML or JSON; a snapshot, as /debug/snapshot writes it, begins with tick or another verb: %s", name, strings.Join(verbs, ", "))
	}
	for x.blanks(); x.pos < len(x.s); x.blanks() {
		s.quoted = s.quoted || len(s.words) == 0 && x.at('"')
		w, err := x.word()
		if err != nil {
			return fmt.Errorf("%s: column %d: %w", s.verb, x.pos+1, err)
		}
		s.words = append(s.words, w)
	}
	return nil
}

// named reports a statement about a thing that its first word names.
func (s *statement) named() bool {
	return s.verb != "policy" && s.verb != "tick" && s.verb != "plan" && s.verb != "settle"
}

// name is the first word of a statement about a thing.
func (s *statement) name() (string, bool) {
	if !s.named() || len(s.words) == 0 || s.words[0].isSet {
		return "", false
	}
	return s.words[0].key, true
}

// maxRange bounds the things that one line may declare.
const maxRange = 10000

// names returns the names of a range: w-0 to w-7 for "w-{0..7}". A name without a brace, or a
// quoted one, stands for itself.
func (s *statement) names(name string) ([]string, error) {
	before, rest, ok := strings.Cut(name, "{")
	if !ok || s.quoted {
		return []string{name}, nil
	}
	bounds, after, closed := strings.Cut(rest, "}")
	low, high, dots := strings.Cut(bounds, "..")
	from, err1 := strconv.ParseUint(low, 10, 31)
	to, err2 := strconv.ParseUint(high, 10, 31)
	switch {
	case !closed || !dots || err1 != nil || err2 != nil || strings.Contains(after, "{"):
		return nil, fmt.Errorf("want one range as in name-{0..7}: %q", name)
	case to < from || to-from >= maxRange:
		return nil, fmt.Errorf("a range goes up, and has at most %d members: %q", maxRange, name)
	}
	var all []string
	for n := from; n <= to; n++ {
		all = append(all, before+strconv.FormatUint(n, 10)+after)
	}
	return all, nil
}

// lexer reads one logical line.
type lexer struct {
	s   string
	pos int
}

// Characters that end an atom, at the top level and inside a list.
const (
	topStops  = " \t()=,\""
	listStops = " \t()=,:\""
)

func (x *lexer) blanks() {
	for x.at(' ') || x.at('\t') || x.at(',') {
		x.pos++
	}
}

func (x *lexer) at(c byte) bool { return x.pos < len(x.s) && x.s[x.pos] == c }

func (x *lexer) skip(c byte) bool {
	if !x.at(c) {
		return false
	}
	x.pos++
	return true
}

// atom reads a quoted or a plain word.
func (x *lexer) atom(stops string) (string, error) {
	rest := x.s[x.pos:]
	if x.at('"') {
		q, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", errors.New("a quoted word that does not end")
		}
		x.pos += len(q)
		return strconv.Unquote(q)
	}
	end := strings.IndexAny(rest, stops)
	if end < 0 {
		end = len(rest)
	}
	if end == 0 {
		return "", fmt.Errorf("want a word, found %q", rest[:min(1, len(rest))])
	}
	x.pos += end
	return rest[:end], nil
}

func (x *lexer) word() (word, error) {
	w, err := word{}, error(nil)
	if w.key, err = x.atom(topStops); err != nil || !x.skip('=') {
		return w, err
	}
	w.isSet = true
	if x.skip('(') {
		w.list = [][]word{}
		for x.blanks(); !x.skip(')'); x.blanks() {
			if x.pos == len(x.s) {
				return w, errors.New("a list that does not end")
			}
			entry, err := x.entry()
			if err != nil {
				return w, err
			}
			w.list = append(w.list, entry)
		}
		return w, nil
	}
	at := x.pos
	if w.value, err = x.atom(topStops); err != nil || !x.at('=') {
		return w, err
	}
	x.pos, w.value = at, "" // one entry of a list: "part:core=500"
	entry, err := x.entry()
	w.list = [][]word{entry}
	return w, err
}

func (x *lexer) entry() (entry []word, err error) {
	for {
		var w word
		if w.key, err = x.atom(listStops); err == nil && x.skip('=') {
			w.isSet = true
			w.value, err = x.atom(listStops)
		}
		if entry = append(entry, w); err != nil || !x.skip(':') {
			return entry, err
		}
	}
}

// quote writes a word so that atom reads it back.
func quote(s string) string {
	special := func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == '{' || strings.ContainsRune(listStops, r) || !strconv.IsPrint(r)
	}
	if s == "" || !utf8.ValidString(s) || s[0] == '#' || strings.ContainsFunc(s, special) {
		return strconv.Quote(s)
	}
	return s
}
