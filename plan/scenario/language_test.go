package scenario_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// wordRead matches how the package reads a word: a call with the word as its
// first argument, or its first after the fields, or a word and its opposite.
var wordRead = regexp.MustCompile(`(?:\bx\.\w+\((?:[^",()]+, )?|\bx\.either\("[a-z-]+", |\w\(x, (?:[^"\n]*, )?|\{)"([a-z-]+)"`)

// TestLanguageIsDocumented: the page has every word that is read, and so has the first
// text of the fuzz test.
func TestLanguageIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/internals/scenarios.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	words := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range wordRead.FindAllStringSubmatch(string(text), -1) {
			words[m[1]] = true
		}
	}
	if len(words) < 100 {
		t.Fatalf("only %d words found", len(words))
	}
	// Words that act, and words for default values, are in other tests.
	elsewhere := map[string]bool{"all": true, "apply": true, "for": true, "every": true, "gone": true, "fails": true}
	for word := range words {
		whole := regexp.MustCompile(`(^|[^a-z-])` + word + `($|[^a-z-])`)
		if !whole.Match(doc) {
			t.Errorf("the page does not have the word %q", word)
		}
		if !elsewhere[word] && !whole.MatchString(everything) {
			t.Errorf("the text with everything does not have the word %q", word)
		}
	}
}

func TestWrongWords(t *testing.T) {
	for text, want := range map[string]string{
		"quota t guarantee=0.5":               `guarantee: want whole GPUs (2), slices of compute and memory (14+16), none or all: "0.5"`,
		"quota t limit=-1":                    "limit: want whole GPUs",
		"quota t limit=3+":                    "limit: want whole GPUs",
		"quota t lend=9223372036854775807":    "lend: want whole GPUs",
		"quota t gone":                        "there is no t",
		"quota":                               "takes a name first",
		"forecast f have=1":                   `want namespace/name: "f"`,
		"forecast a/f gone":                   "there is no a/f",
		"forecast a/f node=n":                 "node: is not known here",
		"forecast a/f low=NaN":                `low: want a number: "NaN"`,
		"pod a/w-{0..10000}":                  "has at most 10000 members",
		"pod a/w-{7..0}":                      "a range goes up",
		"pod a/w-{0..}":                       "want one range as in name-{0..7}",
		"pod a/w-{0..1":                       "want one range",
		"pod a/{0..1}-{0..1}":                 "want one range",
		"pod a/p budgets=(a/b)":               "a budget is namespace/name:allowed=1",
		"tick grown=(h=5)":                    "grown: at: want it: name=number:at=duration",
		"tick failures=(h=x:at=1s)":           `failures: h: want a number: "x"`,
		"policy headroom=some":                `headroom: want one of none low expected high: "some"`,
		"node n drain-deadline=5m":            "want draining=TIME beside them",
		"pod a/w-{0..1}\npod a/w-{0..2} gone": "line 2: pod: there is no pod a/w-2",
		"node n gpus=1 model=H100-80GB layout=(1g.10gb@0:used=1)": "layout: used: is not known here",
	} {
		_, _, err := scenario.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

func TestLineOf(t *testing.T) {
	const text = `# a comment
policy freeze
pool p max=4
  gpus=1
pod a/x requests=gpu
pod a/w-{0..7} requests=gpu
pod "a/w-{0..1}" requests=gpu
gpu n/0 health=sick
pool p max=5
policy thaw
`
	for _, c := range []struct {
		verb, name string
		want       int
	}{
		{"pool", "p", 9}, {"pod", "a/x", 5}, {"pod", "a/w-7", 6}, {"pod", "a/w-8", 0}, {"pod", "a/w-{0..1}", 7},
		{"gpu", "n/0", 8}, {"policy", "", 10}, {"quota", "", 0}, {"pool", "q", 0},
	} {
		if got := scenario.LineOf(text, c.verb, c.name); got != c.want {
			t.Errorf("%s %s: line %d, want %d", c.verb, c.name, got, c.want)
		}
	}
	if got := scenario.LineOf("pod a/x requests=(", "pod", "a/x"); got != 0 {
		t.Errorf("of a text that cannot be read: line %d", got)
	}
}
