package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The exit status tells a script what the text tells a person.
func TestCheckExitStatus(t *testing.T) {
	users := filepath.Join(t.TempDir(), "web.yml")
	if err := os.WriteFile(users, []byte("basic_auth_users: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		recording string
		args      []string
		want      int
	}{
		{"mixed.txt", nil, 2}, // the default counters, which the recording has not all
		{"complete.txt", []string{"-f", "testdata/power.csv"}, 0},
		{"complete.txt", []string{"-f", "testdata/none.csv"}, 1},
		{"complete.txt", []string{"--max-series", "-1"}, 1},
		{"complete.txt", []string{"-f", "testdata/power.csv", "--web-config-file", users}, 0},
		{"complete.txt", []string{"-f", "testdata/power.csv", "--web-config-file", "testdata/power.csv"}, 1},
	} {
		err := exec.Command("gpuscale-exporter", append([]string{"check", "--replay", "testdata/" + c.recording, "-c", "100"}, c.args...)...).Run()
		got := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			got = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("check %q ends with %d, want %d", c.args, got, c.want)
		}
	}
}
