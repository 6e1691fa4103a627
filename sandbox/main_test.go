package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuscale/gpuscale/internal/require"
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

func TestUnwritableLog(t *testing.T) {
	if _, _, err := openLog(t.TempDir()); err == nil {
		t.Error("a folder was taken as the log file")
	}
	file := t.TempDir() + "/log"
	log, closeLog, err := openLog(file)
	require.NoError(t, err)
	log.Info("written")
	closeLog()
	if text, _ := os.ReadFile(file); len(text) == 0 {
		t.Error("nothing in the log")
	}
}
