package vocabulary

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// longest is the number of words that a sentence of a page may have. Code counts as
// one word; tables, blocks and headings are not read.
const longest = 40

// long are sentences that may be longer, by their beginning, with the reason.
var long = map[string]string{
	"**A compromised node** can attribute": "a list of what such a node can do",
}

var (
	item        = regexp.MustCompile(`^\s*(?:[-*]|\d+\.)\s+`)
	codeSpan    = regexp.MustCompile("`[^`]*`")
	linkTarget  = regexp.MustCompile(`\]\([^)]*\)`)
	sentenceEnd = regexp.MustCompile(`[.!?;]["')*_]*(?:\s+|$)`)
	aWord       = regexp.MustCompile(`[A-Za-z0-9][\w'’.,%-]*`)
)

// sentence of a page, and the line on which its paragraph begins.
type sentence struct {
	line int
	text string
}

func (s sentence) words() int { return len(aWord.FindAllString(s.text, -1)) }

// sentences of the prose of a page. A semicolon ends one too.
func sentences(page string) []sentence {
	var out []sentence
	var paragraph []string
	begins, fenced := 0, false
	end := func() {
		text := linkTarget.ReplaceAllString(codeSpan.ReplaceAllString(strings.Join(paragraph, " "), "code"), "]")
		for _, s := range sentenceEnd.Split(text, -1) {
			if s != "" {
				out = append(out, sentence{begins, s})
			}
		}
		paragraph = nil
	}
	for i, line := range strings.Split(page, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
			end()
		case fenced, text == "", strings.HasPrefix(line, "    "), strings.ContainsAny(text[:1], "|#<"), strings.HasPrefix(text, "!["):
			end()
		default:
			if mark := item.FindString(line); mark != "" {
				end()
				text = line[len(mark):]
			}
			if paragraph == nil {
				begins = i + 1
			}
			paragraph = append(paragraph, text)
		}
	}
	end()
	return out
}

func TestSentences(t *testing.T) {
	page := "# One two three\n\nA `b c d` of\n[two](lines.md#that-do-not-count). Next; half.\n- item\n- v1.2 is e.g.\n\n```text\nnot this.\n```\n| nor | this |\n\n    nor this\n"
	var got []int
	for _, s := range sentences(page) {
		got = append(got, s.line, s.words())
	}
	want := []int{3, 4, 3, 1, 3, 1, 5, 1, 6, 3}
	if len(got) != len(want) {
		t.Fatalf("lines and words %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("lines and words %v, want %v", got, want)
		}
	}
}

// TestPagesHaveShortSentences: a longer sentence should be two.
func TestPagesHaveShortSentences(t *testing.T) {
	for _, path := range files(t, ".md") {
		rel, _ := filepath.Rel(root(t), path)
		if rel == "CHANGELOG.md" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
	next:
		for _, s := range sentences(string(text)) {
			if s.words() <= longest {
				continue
			}
			for begins := range long {
				if strings.HasPrefix(s.text, begins) {
					continue next
				}
			}
			t.Errorf("%s:%d: a sentence of %d words, more than %d: %s", rel, s.line, s.words(), longest, s.text)
		}
	}
}
