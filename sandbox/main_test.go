package main

import (
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
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireExplicitExec: true})
}
