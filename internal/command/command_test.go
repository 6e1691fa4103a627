package command

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// TestSetup: help is at most 80 columns wide, and mistakes in the line are marked as such.
func TestSetup(t *testing.T) {
	run := func(args ...string) (string, error) {
		root := &cobra.Command{Use: "gpuscale-x", Short: "Do it", Args: NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
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
	if _, err := run("versio"); err == nil || !strings.HasSuffix(err.Error(), "did you mean version?") {
		t.Error(err)
	}
}
