package docs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const sample = "# A page\n" + `
Prose with ` + "`make demo`" + ` and a [link](docs/a.md#here), an ![image](img/x.png)
that goes on ` + "`over\ntwo`" + ` lines, and no [link` + "`](x.md)`" + `.

    kubectl get nodes
    # a comment

    kubectl get pods
Prose again
    that is indented, but goes on.

## With code: ` + "`x_y`" + `, and [more](b.md)
    straight below a heading
- an item

  with a paragraph

      code in it
- another
    goes on
` + "```yaml\n# file.yaml\na: 1\n```\n   ```sh\n   indented fence\n   ```\n~~~\nno language\n```\n~~~\n" + `
<!-- [comment](gone.md)
    still comment -->
| a | b |
|---|---|
| ` + "`a \\| b`" + ` | [c](d.md "title") |

## A page
[ref]: e.md
`

func TestParse(t *testing.T) {
	p := Parse("x.md", sample)
	var got []string
	for _, b := range p.Blocks {
		got = append(got, fmt.Sprintf("%d %v %q %q", b.Line, b.Fenced, b.Lang, b.Text))
	}
	for _, l := range p.Links {
		got = append(got, fmt.Sprintf("%d -> %s %v", l.Line, l.Target, l.Image))
	}
	for _, s := range p.Spans {
		got = append(got, fmt.Sprintf("%d `%s`", s.Line, s.Text))
	}
	for a := range p.Anchors {
		got = append(got, "#"+a)
	}
	want := []string{
		`7 false "" "kubectl get nodes\n# a comment\n\nkubectl get pods\n"`,
		`15 false "" "straight below a heading\n"`,
		`20 false "" "code in it\n"`,
		`24 true "yaml" "# file.yaml\na: 1\n"`,
		`28 true "sh" "indented fence\n"`,
		`31 true "" "no language\n` + "```" + `\n"`,
		"3 -> docs/a.md#here false", "3 -> img/x.png true", "14 -> b.md false", "39 -> d.md false", "42 -> e.md false",
		"3 `make demo`", "4 `over two`", "5 `](x.md)`", "14 `x_y`", "39 `a | b`",
		"#a-page", "#a-page-1", "#with-code-x_y-and-more",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// FuzzParse: whatever the page, each block's text stands in it, lines are where they
// are said to be, and what judges it does not panic.
func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Add("```\n")
	f.Add("- \n\n\t\t`")
	f.Fuzz(func(t *testing.T, text string) {
		p := Parse("x.md", text)
		lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
		for _, b := range p.Blocks {
			for i, l := range strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n") {
				if b.Text != "" && !strings.HasSuffix(expanded(lines[b.Line-1+i]), strings.TrimLeft(l, " ")) {
					t.Fatalf("%q is not line %d of %q", l, b.Line+i, text)
				}
			}
			_, _ = b.Kind()
			_ = b.CheckJSON()
			for _, c := range b.Commands() {
				_ = c.Check()
			}
		}
		for _, l := range p.Links {
			if l.Line < 1 || l.Line > len(lines) {
				t.Fatalf("line %d of %d", l.Line, len(lines))
			}
		}
		for _, s := range p.Spans {
			if s.Line < 1 || s.Line > len(lines) {
				t.Fatalf("line %d of %d", s.Line, len(lines))
			}
		}
	})
}
