package command

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestSetup: help is at most 80 columns wide, and mistakes in the command line are marked as such.
func TestSetup(t *testing.T) {
	run := func(args ...string) (string, error) {
		root := &cobra.Command{Use: "gpuscale-x", Short: "Do it", Args: NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
		root.Flags().TextVar(new(slog.Level), "level", slog.LevelInfo, "debug or info")
		root.Flags().String("a-flag-with-a-long-name", "", strings.Repeat("words about it ", 20))
		Setup(root, "gpuscale-x")
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(args)
		err := root.Execute()
		return out.String(), err
	}
	help, err := run("--help")
	if err != nil || !strings.Contains(help, "words about it") {
		t.Errorf("got %q, %v", help, err)
	}
	for line := range strings.SplitSeq(help, "\n") {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("more than 80 columns: %s", line)
		}
	}
	for _, bad := range [][]string{{"--a-flg"}, {"versio"}, {"version", "-o", "yaml"}, {"version", "extra"}} {
		if out, err := run(bad...); !IsUsage(err) || out != "" {
			t.Errorf("%v: %v, and %q", bad, err, out)
		}
	}
	for meant, line := range map[string]string{
		"did you mean version?":                   "versio",
		"did you mean --a-flag-with-a-long-name?": "--a-flag-with-a-long-nam",
		"did you mean --output?":                  "version --outpt=json",
		"see its --help":                          "--nothing-of-that",
		"in -a; see its --help":                   "-a",
		"unknown name; want debug or info":        "--level=loud",
	} {
		if _, err := run(strings.Fields(line)...); err == nil || !strings.HasSuffix(err.Error(), meant) {
			t.Errorf("%s: %v, want %s", line, err, meant)
		}
	}
}
