package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes gpuscale-sandbox available as a command in scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gpuscale-sandbox": main})
}

// TestCommandLine plays testdata/script: command lines and their output, mostly errors. Nothing is compiled
// or started.
func TestCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireExplicitExec: true})
}
