package docs

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Command is one command as it is written in a page.
type Command struct {
	Page string
	Line int
	Text string // has several lines if a quote, a backslash or a here-document continues
}

// Commands returns the commands of a block. If lines begin with "$ ", all others are output.
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

// unfinished reports whether a shell would wait for another line.
func unfinished(text string) bool {
	_, err := Words(text)
	var e syntax.ParseError // it does not detect an unfinished here-document
	return strings.HasSuffix(text, `\`) || syntax.IsIncomplete(err) || errors.As(err, &e) && strings.Contains(e.Text, "here-document")
}

// Words returns the words of each program that a command line runs, including programs in $(…). Redirections
// and leading variable assignments are left out.
func Words(text string) (programs [][]string, err error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			var words []string
			for _, w := range call.Args {
				words = append(words, unquoted(w.Parts, text))
			}
			programs = append(programs, words)
		}
		return true
	})
	return programs, nil
}

var escaped = regexp.MustCompile(`\\(.)`)

// unquoted returns a word as the program receives it. Shell expansions stay as written.
func unquoted(parts []syntax.WordPart, text string) string {
	word := ""
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			word += escaped.ReplaceAllString(p.Value, "$1")
		case *syntax.SglQuoted:
			word += p.Value
		case *syntax.DblQuoted:
			word += unquoted(p.Parts, text)
		default:
			word += text[p.Pos().Offset():p.End().Offset()]
		}
	}
	return word
}

// Check returns an error if a program of the command is unknown.
func (c Command) Check() error {
	programs, err := Words(c.Text)
	if err != nil {
		return err
	}
	for _, words := range programs {
		if !slices.Contains(Programs, words[0]) {
			return fmt.Errorf("unknown program %q: add it to Programs, or fence the block as text", words[0])
		}
	}
	return nil
}
