package docs

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// Page is one Markdown file, as far as it is judged.
type Page struct {
	Path    string // below the checkout's root, with slashes
	Blocks  []Block
	Links   []Link
	Spans   []Span
	Anchors map[string]bool // as GitHub makes them of headings
}

// Block is text that is not prose: fenced, or indented by four spaces.
type Block struct {
	Page   string
	Line   int // of its first line of text, from 1
	Fenced bool
	Lang   string // the fence's first word; empty without one
	Text   string // without fence and indentation, each line ended by \n
}

// Link leads from a line of a page to a target as it is written.
type Link struct {
	Line   int
	Target string
	Image  bool
}

// Span is code within prose. One that goes over a line's end has a blank there.
type Span struct {
	Line int
	Text string
}

var (
	heading   = regexp.MustCompile(`^ {0,3}#{1,6}(?: +(.*?))?(?: +#+)? *$`)
	fence     = regexp.MustCompile("^( *)(```+|~~~+) *([^`]*)$")
	item      = regexp.MustCompile(`^( *)([-*+]|\d{1,9}[.)])( +|$)`)
	span      = regexp.MustCompile("(?s)``(.+?)``|`([^`]+)`")
	link      = regexp.MustCompile(`(!?)\[[^\[\]]*(?:!\[[^\[\]]*\]\([^()\s]*\)[^\[\]]*)?\]\(\s*([^()\s]+(?:\([^()\s]*\)[^()\s]*)?)(?:\s+"[^"]*")?\s*\)`)
	image     = regexp.MustCompile(`!\[[^\[\]]*\]\(\s*([^()\s]+)\s*\)`)
	reference = regexp.MustCompile(`(?m)^ {0,3}\[[^\]]+\]:[ \t]+(\S+)`)
	linked    = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
)

// Parse reads a page. Nothing is an error in Markdown: what is no block is prose.
func Parse(path, text string) Page {
	p := Page{Path: path, Anchors: map[string]bool{}}
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\t", "    ").Replace(strings.TrimSuffix(text, "\n")), "\n")
	slugs := map[string]int{}
	var prose []string
	from, inList := 0, 0 // the first line of prose; how far a list item's text is indented
	flush := func() {
		if len(prose) > 0 {
			p.read(strings.Join(prose, "\n"), from)
		}
		prose = nil
	}
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		indent := len(line) - len(strings.TrimLeft(line, " "))
		code := len(prose) == 0 && indent >= inList+4
		switch m := fence.FindStringSubmatch(line); {
		case strings.TrimSpace(line) == "":
			flush()
		case m != nil && !code:
			flush()
			lang, _, _ := strings.Cut(strings.TrimSpace(m[3]), " ")
			b := Block{Page: path, Line: i + 2, Fenced: true, Lang: lang}
			for i++; i < len(lines) && !closes(lines[i], m[2]); i++ {
				b.Text += dedented(lines[i], len(m[1])) + "\n"
			}
			p.Blocks = append(p.Blocks, b)
		case strings.HasPrefix(strings.TrimSpace(line), "<!--"):
			flush()
			for i < len(lines) && !strings.Contains(lines[i], "-->") {
				i++
			}
		case code:
			b := Block{Page: path, Line: i + 1}
			for blanks := 0; i < len(lines); i++ {
				if strings.TrimSpace(lines[i]) == "" {
					blanks++
					continue
				}
				if !strings.HasPrefix(lines[i], strings.Repeat(" ", inList+4)) {
					break
				}
				b.Text += strings.Repeat("\n", blanks) + dedented(lines[i], inList+4) + "\n"
				blanks = 0
			}
			i--
			p.Blocks = append(p.Blocks, b)
		default:
			if m := heading.FindStringSubmatch(line); m != nil {
				flush()
				inList = 0
				p.Anchors[anchor(m[1], slugs)] = true
				p.read(m[1], i+1)
				continue
			}
			if m := item.FindStringSubmatch(line); m != nil {
				flush()
				inList = len(m[0])
			} else if len(prose) == 0 && indent < inList {
				inList = 0
			}
			if len(prose) == 0 {
				from = i + 1
			}
			prose = append(prose, line)
		}
	}
	flush()
	return p
}

// closes reports whether a line ends the block that a fence has opened.
func closes(line, fence string) bool {
	line = strings.TrimSpace(line)
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}

func dedented(line string, by int) string {
	for by > 0 && strings.HasPrefix(line, " ") {
		line, by = line[1:], by-1
	}
	return line
}

// read takes code and links out of a paragraph that begins at a line.
func (p *Page) read(text string, from int) {
	line := func(at int) int { return from + strings.Count(text[:at], "\n") }
	rest := []byte(text) // with the code blotted out, so that nothing in it is taken for a link
	for _, m := range span.FindAllStringSubmatchIndex(text, -1) {
		code := strings.Trim(text[m[0]:m[1]], "`")
		code = strings.ReplaceAll(strings.ReplaceAll(code, `\|`, "|"), "\n", " ") // as a table's cell has it
		p.Spans = append(p.Spans, Span{Line: line(m[0]), Text: strings.TrimSpace(code)})
		for i := m[0]; i < m[1]; i++ {
			if rest[i] != '\n' {
				rest[i] = '.'
			}
		}
	}
	prose := string(rest)
	for _, m := range link.FindAllStringSubmatchIndex(prose, -1) {
		p.Links = append(p.Links, Link{Line: line(m[0]), Target: prose[m[4]:m[5]], Image: m[2] != m[3]})
		if m[2] == m[3] { // an image in a link
			for _, in := range image.FindAllStringSubmatch(prose[m[0]+1:m[4]], -1) {
				p.Links = append(p.Links, Link{Line: line(m[0]), Target: in[1], Image: true})
			}
		}
	}
	for _, m := range reference.FindAllStringSubmatchIndex(prose, -1) {
		p.Links = append(p.Links, Link{Line: line(m[0]), Target: prose[m[2]:m[3]]})
	}
}

// anchor of a heading, as GitHub makes it: lower case, words joined by hyphens,
// punctuation gone; the second of the same name has -1 behind it.
func anchor(title string, slugs map[string]int) string {
	slug := strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-', c == '_', unicode.IsLetter(c), unicode.IsDigit(c):
			return unicode.ToLower(c)
		}
		return -1
	}, strings.TrimSpace(linked.ReplaceAllString(title, "$1")))
	slugs[slug]++
	if n := slugs[slug] - 1; n > 0 {
		return fmt.Sprintf("%s-%d", slug, n)
	}
	return slug
}
