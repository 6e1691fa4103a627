package docs

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// spansOf returns the code within a paragraph that begins at the line from, and the
// paragraph with that code blotted out, so that nothing in it is taken for a link.
func spansOf(text string, from int) ([]Span, string) {
	var spans []Span
	rest := []byte(text)
	for i := 0; i < len(text); {
		if text[i] != '`' {
			i++
			continue
		}
		open := ticks(text[i:])
		end := closing(text, i+open, open)
		if end < 0 {
			i += open
			continue
		}
		code := strings.ReplaceAll(text[i+open:end], `\|`, "|") // as a table's cell has it
		spans = append(spans, Span{
			Line: from + strings.Count(text[:i], "\n"),
			Text: strings.TrimSpace(strings.ReplaceAll(code, "\n", " ")),
		})
		for j := i; j < end+open; j++ {
			if rest[j] != '\n' {
				rest[j] = '.'
			}
		}
		i = end + open
	}
	return spans, string(rest)
}

func ticks(s string) int { return len(s) - len(strings.TrimLeft(s, "`")) }

// closing finds the run of exactly n ticks that ends a span; -1 if there is none.
func closing(text string, at, n int) int {
	for at < len(text) {
		i := strings.IndexByte(text[at:], '`')
		if i < 0 {
			return -1
		}
		at += i
		run := ticks(text[at:])
		if run == n {
			return at
		}
		at += run
	}
	return -1
}

var (
	link      = regexp.MustCompile(`(!?)\[[^\[\]]*(?:!\[[^\[\]]*\]\([^()\s]*\)[^\[\]]*)?\]\(\s*([^()\s]+(?:\([^()\s]*\)[^()\s]*)?)(?:\s+"[^"]*")?\s*\)`)
	image     = regexp.MustCompile(`!\[[^\[\]]*\]\(\s*([^()\s]+)\s*\)`)
	reference = regexp.MustCompile(`(?m)^ {0,3}\[[^\]]+\]:[ \t]+(\S+)`)
)

// linksOf a paragraph without its code: inline ones, images in them too, and
// definitions of references.
func linksOf(text string, from int) []Link {
	var links []Link
	line := func(at int) int { return from + strings.Count(text[:at], "\n") }
	for _, m := range link.FindAllStringSubmatchIndex(text, -1) {
		links = append(links, Link{Line: line(m[0]), Target: text[m[4]:m[5]], Image: m[2] != m[3]})
		if inner := text[m[0]+1 : m[4]]; m[2] == m[3] {
			for _, in := range image.FindAllStringSubmatch(inner, -1) {
				links = append(links, Link{Line: line(m[0]), Target: in[1], Image: true})
			}
		}
	}
	for _, m := range reference.FindAllStringSubmatchIndex(text, -1) {
		links = append(links, Link{Line: line(m[0]), Target: text[m[2]:m[3]]})
	}
	return links
}

var linked = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)

// anchor of a heading, as GitHub makes it: lower case, words joined by hyphens,
// punctuation gone; the second of the same name has -1 behind it.
func (r *reader) anchor(title string) string {
	title = linked.ReplaceAllString(title, "$1")
	slug := strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-', c == '_', unicode.IsLetter(c), unicode.IsDigit(c):
			return unicode.ToLower(c)
		}
		return -1
	}, strings.TrimSpace(title))
	n := r.slugs[slug]
	r.slugs[slug]++
	if n > 0 {
		return fmt.Sprintf("%s-%d", slug, n)
	}
	return slug
}
