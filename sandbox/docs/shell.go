package docs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Command is one thing to type, as it stands in a page.
type Command struct {
	Page string
	Line int
	Text string // several lines where a quote, a backslash or a here-document goes on
}

// Commands of a block. Where lines begin with "$ ", the others are what was printed.
func (b Block) Commands() []Command {
	lines := strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n")
	prompted := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "$ ") })
	var out []Command
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if prompted {
			rest, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			line = rest
		}
		if t := strings.TrimSpace(line); t == "" || strings.HasPrefix(t, "#") {
			continue
		}
		c := Command{Page: b.Page, Line: b.Line + i, Text: line}
		for i+1 < len(lines) && unfinished(c.Text) {
			i++
			c.Text += "\n" + lines[i]
		}
		out = append(out, c)
	}
	return out
}

var hereDocument = regexp.MustCompile(`<<-?\s*['"]?(\w+)['"]?`)

// unfinished says whether a shell would wait for another line.
func unfinished(text string) bool {
	if m := hereDocument.FindStringSubmatch(text); m != nil {
		return !slices.ContainsFunc(strings.Split(text, "\n")[1:], func(l string) bool { return strings.TrimSpace(l) == m[1] })
	}
	if strings.HasSuffix(text, `\`) {
		return true
	}
	_, err := Words(text)
	return errors.Is(err, errOpen)
}

var errOpen = errors.New("a quote or a parenthesis is not closed")

// Words takes a command line apart: the segments of a pipeline or list, each with
// its words, without redirections and variables that are set before it. It knows
// quotes, comments, and $(…), which stays one word; all else of a shell is text.
func Words(text string) ([][]string, error) {
	l := lexer{text: text}
	for l.at < len(l.text) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.endSegment()
	return l.segments, nil
}

type lexer struct {
	text     string
	at       int
	word     []byte
	inWord   bool
	skip     bool // the next word is a redirection's file
	segment  []string
	segments [][]string
}

func (l *lexer) next() error {
	c := l.text[l.at]
	switch {
	case c == '\\':
		if strings.HasPrefix(l.text[l.at:], "\\\n") {
			l.at += 2
			return nil
		}
		if l.at+1 < len(l.text) {
			l.put(l.text[l.at+1])
		}
		l.at += 2
	case c == '\'' || c == '"':
		return l.quoted(c)
	case strings.HasPrefix(l.text[l.at:], "$("):
		return l.substitution()
	case c == '#' && !l.inWord:
		if i := strings.IndexByte(l.text[l.at:], '\n'); i >= 0 {
			l.at += i
		} else {
			l.at = len(l.text)
		}
	case c == ' ' || c == '\t':
		l.endWord()
		l.at++
	case c == '|' || c == '&' || c == ';' || c == '\n':
		if c == '&' && l.redirects() {
			l.put(c)
			l.at++
			return nil
		}
		l.endSegment()
		l.at++
	case c == '<' || c == '>':
		l.dropNumber()
		l.endWord()
		for l.at < len(l.text) && strings.IndexByte("<>&-", l.text[l.at]) >= 0 {
			l.at++
		}
		l.skip = true
	default:
		l.put(c)
		l.at++
	}
	return nil
}

func (l *lexer) put(c byte) { l.word, l.inWord = append(l.word, c), true }

// redirects: an ampersand behind > belongs to it.
func (l *lexer) redirects() bool { return l.skip && !l.inWord }

// dropNumber takes away the 2 of 2>.
func (l *lexer) dropNumber() {
	if len(l.word) == 1 && l.word[0] >= '0' && l.word[0] <= '9' {
		l.word, l.inWord = nil, false
	}
}

func (l *lexer) quoted(q byte) error {
	end := l.at + 1
	l.inWord = true
	for ; end < len(l.text); end++ {
		switch {
		case l.text[end] == q:
			l.at = end + 1
			return nil
		case q == '"' && l.text[end] == '\\' && end+1 < len(l.text):
			end++
		}
		l.word = append(l.word, l.text[end])
	}
	return errOpen
}

func (l *lexer) substitution() error {
	depth := 0
	for i := l.at + 1; i < len(l.text); i++ {
		switch l.text[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			l.word, l.inWord = append(l.word, l.text[l.at:i+1]...), true
			l.at = i + 1
			return nil
		}
	}
	return errOpen
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

func (l *lexer) endWord() {
	if !l.inWord {
		return
	}
	word := string(l.word)
	l.word, l.inWord = nil, false
	switch {
	case l.skip:
		l.skip = false
	case len(l.segment) == 0 && assignment.MatchString(word):
	default:
		l.segment = append(l.segment, word)
	}
}

func (l *lexer) endSegment() {
	l.endWord()
	l.skip = false
	if len(l.segment) > 0 {
		l.segments = append(l.segments, l.segment)
	}
	l.segment = nil
}

// Check says whether all programs of a command are known ones.
func (c Command) Check() error {
	text := c.Text
	if hereDocument.MatchString(text) {
		text, _, _ = strings.Cut(text, "\n") // what follows is the document
	}
	segments, err := Words(text)
	if err != nil {
		return err
	}
	for _, words := range segments {
		if !slices.Contains(Programs, words[0]) {
			return fmt.Errorf("nobody knows the program %q: add it to Programs, or fence the block as text", words[0])
		}
	}
	return nil
}
