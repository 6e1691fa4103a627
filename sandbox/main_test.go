package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes gpuscale-sandbox a command of the scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gpuscale-sandbox": main})
}

// TestCommandLine plays testdata/script: command lines and
// their output, errors above all. Nothing in it compiles or starts anything.
func TestCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true,
		// SELF is for scripts that take everything off PATH.
		Setup: func(env *testscript.Env) error {
			bin, _, _ := strings.Cut(env.Getenv("PATH"), string(os.PathListSeparator))
			env.Setenv("SELF", filepath.Join(bin, "gpuscale-sandbox"))
			return nil
		},
	})
}
