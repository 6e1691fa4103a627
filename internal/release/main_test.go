package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain forgets what steers git and the time of a release from outside: in a git
// hook GIT_DIR would have these tests commit to the repository that is being pushed.
func TestMain(m *testing.M) {
	for _, setting := range os.Environ() {
		if name, _, _ := strings.Cut(setting, "="); strings.HasPrefix(name, "GIT_") || name == "SOURCE_DATE_EPOCH" {
			_ = os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}
