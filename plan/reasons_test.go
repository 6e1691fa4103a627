package plan

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// TestEveryReasonIsDocumented reads reasons.go, so that it covers every
// constant.
func TestEveryReasonIsDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var constants []Reason
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for _, v := range spec.Values {
				word, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				constants = append(constants, Reason(word))
				if spec.Names[0].Name != word {
					t.Errorf("constant %s says %q", spec.Names[0].Name, word)
				}
			}
		}
		return true
	})
	if len(constants) < 20 {
		t.Fatalf("found only %v", constants)
	}
	var documented []Reason
	for _, d := range Reasons() {
		if d.Meaning == "" || d.Kind == "" {
			t.Errorf("%s has no meaning or kind", d.Reason)
		}
		if slices.Contains(documented, d.Reason) {
			t.Errorf("%s is documented twice", d.Reason)
		}
		documented = append(documented, d.Reason)
	}
	for _, c := range constants {
		if !slices.Contains(documented, c) {
			t.Errorf("%s is not documented", c)
		}
	}
	if len(documented) != len(constants) {
		t.Errorf("%d documented, %d constants", len(documented), len(constants))
	}
}
