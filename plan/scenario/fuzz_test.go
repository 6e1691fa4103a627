package scenario_test

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// FuzzScenario parses any text without a panic. A parsed text prints and parses back to the same, and Make plans it,
// whatever the order.
func FuzzScenario(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal("no scenarios", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		for _, block := range strings.Split(string(text), "----\n") {
			f.Add(block)
		}
	}
	f.Add(everything)
	f.Fuzz(func(t *testing.T, text string) {
		s, p, err := scenario.Parse(text)
		plan.Make(s, p)
		if err != nil {
			return
		}
		printed := scenario.PrintPolicy(p) + scenario.Print(s)
		back, policy, err := scenario.Parse(printed)
		if err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if !reflect.DeepEqual(s, back) {
			t.Fatalf("%+v\nprints as\n%s\nand reads back as\n%+v", s, printed, back)
		}
		if fmt.Sprint(policy) != fmt.Sprint(p) {
			t.Fatalf("%+v reads back as %+v", p, policy)
		}
	})
}

// everything has every field of the language.
//
//go:embed everything.txt
var everything string
