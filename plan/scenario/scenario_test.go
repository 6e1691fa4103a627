package scenario_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// TestScenarios runs testdata/*.txt: each file is one world, each block some statements and their output. The harness checks every
// plan. Each block of a file check_*.txt is a world by itself, and its output the problems that Check finds.
// -rewrite writes the outputs again.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		lines := strings.Split(string(raw), "\n")
		w := scenario.NewWorld()
		w.Check = harness
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			text := block(t, d, lines)
			if strings.HasPrefix(filepath.Base(path), "check_") {
				s, p, err := scenario.Parse(text)
				return fmt.Sprintln(errors.Join(err, s.Check(), p.Check()))
			}
			out, err := w.Exec(text)
			if err != nil {
				out += "error: " + err.Error() + "\n"
			}
			if out == "" {
				return "ok"
			}
			return out
		})
	})
}

// block is a block's statements as in the file: datadriven splits the first
// line by its own rules and trims the others.
func block(t *testing.T, d *datadriven.TestData, lines []string) string {
	_, number, ok := strings.Cut(filepath.Base(d.Pos), ":")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 || n > len(lines) {
		t.Fatalf("%s: no such line", d.Pos)
	}
	end := n
	for end < len(lines) && lines[end] != "----" {
		end++
	}
	return strings.Join(lines[n-1:end], "\n")
}
