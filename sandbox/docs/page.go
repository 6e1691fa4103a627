package docs

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Page is one Markdown file: the parts of it that are checked.
type Page struct {
	Path    string // below the checkout's root, with slashes
	Blocks  []Block
	Links   []Link
	Spans   []Span
	Anchors map[string]bool // as GitHub makes them of headings
}

// Block is text that is not prose: a fenced block, or one indented by four spaces.
type Block struct {
	Page   string
	Line   int // of its first line of text, from 1
	Fenced bool
	Lang   string // the fence's first word; empty without one
	Text   string // without fence and indentation, each line ended by \n
}

// Link is a link in a page: its line, and its target as written.
type Link struct {
	Line   int
	Target string
	Image  bool
}

// Span is inline code. A line break in it becomes a space.
type Span struct {
	Line int
	Text string
}

// parse reads a page as GitHub does. It cannot fail: in Markdown everything that is not a block is prose.
func parse(path, markdown string) Page {
	p := Page{Path: path, Anchors: map[string]bool{}}
	source := []byte(markdown)
	line := func(at int) int { return 1 + bytes.Count(source[:at], []byte("\n")) }
	block := func(n ast.Node) *Block {
		b := Block{Page: path, Text: string(n.Lines().Value(source))}
		if n.Lines().Len() > 0 {
			b.Line = line(n.Lines().At(0).Start)
		}
		p.Blocks = append(p.Blocks, b)
		return &p.Blocks[len(p.Blocks)-1]
	}
	slugs := map[string]int{}
	see := func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		words, at := content(n, source)
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			b := block(n)
			b.Fenced, b.Lang = true, string(n.Language(source))
		case *ast.CodeBlock:
			block(n)
		case *ast.Heading:
			p.Anchors[anchor(words, slugs)] = true
		case *ast.CodeSpan:
			p.Spans = append(p.Spans, Span{Line: line(at), Text: words})
		case *ast.Link:
			p.Links = append(p.Links, Link{Line: line(at), Target: string(n.Destination)})
		case *ast.Image:
			p.Links = append(p.Links, Link{Line: line(at), Target: string(n.Destination), Image: true})
		}
		return ast.WalkContinue, nil
	}
	_ = ast.Walk(goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source)), see) // see returns no error
	return p
}

// content returns the visible text of an inline node, and the offset in the source at which it begins.
func content(n ast.Node, source []byte) (words string, at int) {
	at = len(source)
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			words += strings.ReplaceAll(string(c.Value(source)), "\n", " ")
			if c.SoftLineBreak() {
				words += " "
			}
			at = min(at, c.Segment.Start)
		default:
			more, from := content(c, source)
			words, at = words+more, min(at, from)
		}
	}
	return words, at
}

// anchor returns a heading's anchor as GitHub makes it: lower case, words joined by hyphens, no punctuation.
// The second heading of the same name gets the suffix -1.
func anchor(title string, slugs map[string]int) string {
	slug := strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-', c == '_', unicode.IsLetter(c), unicode.IsDigit(c):
			return unicode.ToLower(c)
		}
		return -1
	}, strings.TrimSpace(title))
	slugs[slug]++
	if n := slugs[slug] - 1; n > 0 {
		return fmt.Sprintf("%s-%d", slug, n)
	}
	return slug
}
