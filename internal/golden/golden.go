// Package golden compares what a test makes with a committed file. It is
// imported by tests alone, to which it adds the flag -update.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files again")

// Equal fails the test unless the file has this text, and shows the first line
// that differs. With -update it writes the file.
func Equal(t testing.TB, file, text string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if line := difference(text, string(want)); line != "" {
		t.Errorf("%s differs (-update writes it again; read the difference):\n%s", file, line)
	}
}

// difference returns the first line in which two texts differ; empty if they are equal.
func difference(got, want string) string {
	if got == want {
		return ""
	}
	a, b := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	i := 0
	for i < len(a)-1 && i < len(b)-1 && a[i] == b[i] {
		i++
	}
	return "got:  " + a[i] + "\nwant: " + b[i]
}
