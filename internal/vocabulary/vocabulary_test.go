package vocabulary

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/gpuscale/gpuscale/internal/require"
)

// private maps each private word to the word in its place. Each one is in the
// table of CONTRIBUTING.md.
var private = map[string]string{
	"card": "GPU", "cards": "GPUs",
	"anew":    "again",
	"awaited": "upcoming",
	"bed":     "test environment", "beds": "test environments",
	"bought": "scaled up",
	"double": "fake", "doubles": "fakes",
	"heard": "observed", "told": "reported", "said": "reported",
	"shelf":  "index",
	"rails":  "guardrails",
	"vain":   "unserved",
	"nobody": "the object", "somebody": "the object", "whoever": "the object",
	"house": "package", "room": "free capacity",
}

// inTexts are the private words that string literals of programs and docs must not have. The others have ordinary uses
// there ("told apart").
var inTexts = []string{"card", "cards", "anew", "bed", "beds", "shelf", "nobody", "somebody", "whoever", "in vain", "told", "said", "heard", "bought"}

// allowed are names that are not ours, by the reason.
var allowed = map[string]string{
	"DCGMDoubleBitErrors": "NVIDIA's name of the field",
	"typeDouble":          "DCGM's type of a value",
	"judgeDouble":         "judges a value of DCGM's type double",
}

// words splits an identifier at capitals and underscores: maxGPUsOf is max,
// GPUs, of.
func words(name string) []string {
	var out []string
	start := 0
	runes := []rune(name)
	for i := 1; i <= len(runes); i++ {
		if i == len(runes) || runes[i] == '_' ||
			unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			out = append(out, strings.ToLower(strings.Trim(string(runes[start:i]), "_")))
			start = i
		}
	}
	return out
}

func TestWords(t *testing.T) {
	for name, want := range map[string][]string{
		"card": {"card"}, "maxCards": {"max", "cards"}, "CardHeld": {"card", "held"}, "GPUCard": {"gpu", "card"}, "discard": {"discard"}, "a_card": {"a", "card"},
	} {
		if got := words(name); !slices.Equal(got, want) {
			t.Errorf("words(%q) = %q, want %q", name, got, want)
		}
	}
}

func root(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("go env GOMOD: %v", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
}

// files returns the module's files that end in one of the suffixes.
func files(t *testing.T, suffixes ...string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root(t), func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != "." || d.Name() == "testdata" || d.Name() == "node_modules" || d.Name() == "dist"):
			return filepath.SkipDir
		case slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) }):
			out = append(out, path)
		}
		return nil
	})
	require.NoError(t, err)
	if len(out) == 0 {
		t.Fatalf("no files end in %q", suffixes)
	}
	return out
}

// declared calls found for each name that the file declares.
func declared(f *ast.File, found func(*ast.Ident)) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			found(n.Name)
		case *ast.TypeSpec:
			found(n.Name)
		case *ast.Field:
			for _, name := range n.Names {
				found(name)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				found(name)
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, left := range n.Lhs {
					if name, ok := left.(*ast.Ident); ok {
						found(name)
					}
				}
			}
		}
		return true
	})
}

// TestIdentifiers: no identifier has a private word.
func TestIdentifiers(t *testing.T) {
	for _, path := range files(t, ".go") {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		declared(f, func(name *ast.Ident) {
			for _, word := range words(name.Name) {
				if instead, bad := private[word]; bad && allowed[name.Name] == "" {
					t.Errorf("%s: %s: %q is a private word: use %q", set.Position(name.Pos()), name.Name, word, instead)
				}
			}
		})
	}
}

var textWord = regexp.MustCompile(`(?i)\b(` + strings.Join(inTexts, "|") + `)\b`)

// TestTexts: no string of a program (logs, errors, events, help) has a private
// word.
func TestTexts(t *testing.T) {
	for _, path := range files(t, ".go") {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "internal/vocabulary") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if word := textWord.FindString(lit.Value); word != "" {
					t.Errorf("%s: %s: private word %q", set.Position(lit.Pos()), lit.Value, word)
				}
			}
			return true
		})
	}
}

// TestDocs: no page that users read, no board, rule, CRD or chart has a private
// word.
func TestDocs(t *testing.T) {
	for _, path := range files(t, ".md", ".yaml", ".tpl", ".json") {
		rel, _ := filepath.Rel(root(t), path)
		if rel == "CONTRIBUTING.md" || rel == "CHANGELOG.md" {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			if word := textWord.FindString(line); word != "" {
				t.Errorf("%s:%d: private word %q", rel, i+1, word)
			}
		}
	}
}

// TestTable: each enforced word is in the table that people read.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "CONTRIBUTING.md"))
	require.NoError(t, err)
	for word := range private {
		row := regexp.MustCompile(`(?m)^\|[^|]*\b` + strings.TrimSuffix(word, "s") + `s?\b[^|]*\|`)
		if !row.Match(text) {
			t.Errorf("CONTRIBUTING.md has no row for %q", word)
		}
	}
}
