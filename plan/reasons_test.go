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
// constant: each is documented once.
func TestEveryReasonIsDocumented(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var constants []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Type != nil {
			word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil || spec.Names[0].Name != word {
				t.Errorf("constant %s says %q", spec.Names[0].Name, word)
			}
			constants = append(constants, word)
		}
		return true
	})
	var documented []string
	for _, d := range Reasons() {
		if d.Meaning == "" || d.Kind == "" {
			t.Errorf("%s has no meaning or kind", d.Reason)
		}
		documented = append(documented, string(d.Reason))
	}
	slices.Sort(constants)
	slices.Sort(documented)
	if len(constants) < 20 || !slices.Equal(constants, documented) {
		t.Errorf("documented are\n%v, the constants are\n%v", documented, constants)
	}
}
