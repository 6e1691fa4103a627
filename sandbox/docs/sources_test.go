package docs

import (
	"fmt"
	"strings"
	"testing"
)

func TestMakeAndGo(t *testing.T) {
	tree := small(t)
	for text, wrong := range map[string]string{
		"make demo": "", `make demo ARGS="--trace FILE"`: "", "make demo RELEASE=1": "",
		"make demos": "no target demos",
		`make demo ARGS="--trace FILE --spede 2"`:   "no flag --spede",
		"make demo RELEASES=1":                      "no variable RELEASES",
		"go run ./report/bench -nodes 3":            "",
		"go test ./report -run 'TestReal$' -update": "",
		"go test -run '^$' -bench Days ./report":    "",
		"go test ./... -short":                      "",
		"go install example.com/x@v1":               "",
		"go run ./report/bench -node 3":             "no flag -node",
		"go run ./reports":                          "no package reports",
		"go test ./report -run TestUnreal":          "finds nothing",
		"go test ./report -bench Weeks":             "finds nothing",
		"go test ./report -updat":                   "no test in report has the flag -updat",
	} {
		words, err := Words(text)
		if err != nil {
			t.Fatal(err)
		}
		if words[0][0] == "make" {
			err = tree.CheckMake(words[0])
		} else {
			err = tree.CheckGo(words[0])
		}
		if got := fmt.Sprint(err); wrong == "" && err != nil || !strings.Contains(got, wrong) {
			t.Errorf("%s: %s, want %q", text, got, wrong)
		}
	}
	for text, wrong := range map[string]string{"docs/a.md": "", "docs/*.md": "", "docs/": "", "nvidia.com/gpu": "", "docs/c.md": "there is no", "sandbox/*.txt": "there is no"} {
		if err := tree.CheckPath(text); (err == nil) != (wrong == "") {
			t.Errorf("%s: %v, want %q", text, err, wrong)
		}
	}
}
