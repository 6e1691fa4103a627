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
		line, asked := strings.CutPrefix(lines[i], "$ ")
		if t := strings.TrimSpace(line); prompted && !asked || t == "" || strings.HasPrefix(t, "#") {
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

// unfinished reports whether a shell would wait for another line.
func unfinished(text string) bool {
	if m := hereDocument.FindStringSubmatch(text); m != nil {
		return !slices.ContainsFunc(strings.Split(text, "\n")[1:], func(l string) bool { return strings.TrimSpace(l) == m[1] })
	}
	_, err := Words(text)
	return strings.HasSuffix(text, `\`) || errors.Is(err, errOpen)
}

var (
	errOpen    = errors.New("a quote or a parenthesis is not closed")
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	substitute = regexp.MustCompile(`^\$\((?:[^()]|\([^()]*\))*\)`)
)

// Words takes a command line apart: the segments of a pipeline or list, each with
// its words, without redirections and variables that are set before it. It knows
// quotes, comments, and $(…), which stays one word; all else of a shell is text.
func Words(text string) (segments [][]string, err error) {
	var segment []string
	word, inWord, file := "", false, false // file: the next word is a redirection's
	end := func() {
		if inWord && !file && (len(segment) > 0 || !assignment.MatchString(word)) {
			segment = append(segment, word)
		}
		if inWord {
			file = false
		}
		word, inWord = "", false
	}
	put := func(s string) { word, inWord = word+s, true }
	for at := 0; at < len(text); at++ {
		rest := text[at:]
		switch c := text[at]; {
		case strings.HasPrefix(rest, "\\\n"):
			at++
		case c == '\\' && len(rest) > 1:
			put(rest[1:2])
			at++
		case c == '\'' || c == '"':
			put("")
			for at++; at < len(text) && text[at] != c; at++ {
				if c == '"' && text[at] == '\\' && at+1 < len(text) {
					at++
				}
				put(text[at : at+1])
			}
			if at == len(text) {
				return nil, errOpen
			}
		case strings.HasPrefix(rest, "$("):
			m := substitute.FindString(rest)
			if m == "" {
				return nil, errOpen
			}
			put(m)
			at += len(m) - 1
		case c == '#' && !inWord:
			line, _, _ := strings.Cut(rest, "\n")
			at += len(line) - 1
		case c == ' ' || c == '\t':
			end()
		case c == '&' && file && !inWord:
			put("&") // 2>&1
		case strings.IndexByte("|&;\n", c) >= 0:
			end()
			if file = false; len(segment) > 0 {
				segments = append(segments, segment)
			}
			segment = nil
		case c == '<' || c == '>':
			if len(word) == 1 && word[0] >= '0' && word[0] <= '9' {
				word, inWord = "", false // the 2 of 2>
			}
			end()
			for at+1 < len(text) && strings.IndexByte("<>&-", text[at+1]) >= 0 {
				at++
			}
			file = true
		default:
			put(text[at : at+1])
		}
	}
	if end(); len(segment) > 0 {
		segments = append(segments, segment)
	}
	return segments, nil
}

// Check reports whether all programs of a command are known ones.
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
			return fmt.Errorf("unknown program %q: add it to Programs, or fence the block as text", words[0])
		}
	}
	return nil
}
