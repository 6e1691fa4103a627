package docs

import (
	"regexp"
	"strings"
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
	heading = regexp.MustCompile(`^ {0,3}#{1,6}(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$`)
	fence   = regexp.MustCompile("^([ \t]*)(```+|~~~+)[ \t]*([^`]*)$")
	item    = regexp.MustCompile(`^( *)([-*+]|\d{1,9}[.)])( +|$)`)
)

// Parse reads a page. Nothing is an error in Markdown: what is no block is prose.
func Parse(path, text string) Page {
	r := reader{page: Page{Path: path, Anchors: map[string]bool{}}, slugs: map[string]int{}}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		r.line(i+1, line)
	}
	r.endBlock()
	r.endProse()
	return r.page
}

// reader is where Parse stands.
type reader struct {
	page  Page
	slugs map[string]int

	block   *Block // being read
	close   string // the fence that ends it; empty for an indented one
	indent  int    // taken off its lines
	blanks  int    // empty lines that belong to an indented block only if it goes on
	inList  int    // how far a list item's text is indented; 0 outside of lists
	prose   []string
	from    int // the first line of prose
	comment bool
}

func (r *reader) line(n int, line string) {
	if r.block != nil && r.inBlock(line) {
		return
	}
	if r.comment || strings.HasPrefix(strings.TrimSpace(line), "<!--") {
		r.endProse()
		r.comment = !strings.Contains(line, "-->")
		return
	}
	if m := fence.FindStringSubmatch(line); m != nil {
		r.endProse()
		lang, _, _ := strings.Cut(strings.TrimSpace(m[3]), " ")
		r.block = &Block{Page: r.page.Path, Line: n + 1, Fenced: true, Lang: lang}
		r.close, r.indent = m[2], len(m[1])
		return
	}
	trimmed := strings.TrimLeft(expanded(line), " ")
	indent := len(expanded(line)) - len(trimmed)
	switch m := heading.FindStringSubmatch(line); {
	case trimmed == "":
		r.endProse()
	case len(r.prose) == 0 && indent >= r.inList+4:
		r.block = &Block{Page: r.page.Path, Line: n}
		r.close, r.indent = "", r.inList+4
		r.inBlock(line)
	case m != nil:
		r.endProse()
		r.inList = 0
		r.page.Anchors[r.anchor(m[1])] = true
		r.prose, r.from = []string{m[1]}, n
		r.endProse()
	default:
		if m := item.FindStringSubmatch(line); m != nil {
			r.endProse()
			r.inList = len(m[0])
		} else if len(r.prose) == 0 && indent < r.inList {
			r.inList = 0
		}
		if len(r.prose) == 0 {
			r.from = n
		}
		r.prose = append(r.prose, line)
	}
}

// inBlock takes a line into the block that is being read; false when the block has
// ended before it.
func (r *reader) inBlock(line string) bool {
	trimmed := strings.TrimSpace(line)
	if r.close != "" {
		if len(trimmed) >= len(r.close) && strings.Trim(trimmed, r.close[:1]) == "" {
			r.endBlock()
			return true
		}
		r.block.Text += dedented(line, r.indent) + "\n"
		return true
	}
	if trimmed == "" {
		r.blanks++
		return true
	}
	if !strings.HasPrefix(expanded(line), strings.Repeat(" ", r.indent)) {
		r.endBlock()
		return false
	}
	r.block.Text += strings.Repeat("\n", r.blanks) + dedented(line, r.indent) + "\n"
	r.blanks = 0
	return true
}

func (r *reader) endBlock() {
	if r.block != nil {
		r.page.Blocks = append(r.page.Blocks, *r.block)
	}
	r.block, r.blanks = nil, 0
}

// endProse reads links and code of the paragraph that is over.
func (r *reader) endProse() {
	if len(r.prose) > 0 {
		spans, rest := spansOf(strings.Join(r.prose, "\n"), r.from)
		r.page.Spans = append(r.page.Spans, spans...)
		r.page.Links = append(r.page.Links, linksOf(rest, r.from)...)
	}
	r.prose = nil
}

// expanded has four spaces for each tab at the beginning.
func expanded(line string) string {
	rest := strings.TrimLeft(line, " \t")
	return strings.ReplaceAll(line[:len(line)-len(rest)], "\t", "    ") + rest
}

func dedented(line string, by int) string {
	line = expanded(line)
	for by > 0 && strings.HasPrefix(line, " ") {
		line, by = line[1:], by-1
	}
	return line
}
