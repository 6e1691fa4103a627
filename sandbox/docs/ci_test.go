package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

// TestCI: the script that CI runs leaves the real node out where it cannot have one,
// with the reason, and fails where a target fails.
func TestCI(t *testing.T) {
	for name, c := range map[string]struct {
		stubs map[string]string // programs that the script calls
		fails bool
		want  string // what has run, and what it says
	}{
		"all is there":         {nil, false, "make test;apt-get update;apt-get install;make test-node;"},
		"another user":         {map[string]string{"id": "echo 1000"}, false, "make test;LEFT OUT: it needs root"},
		"no network":           {map[string]string{"apt-get": `test $what = install`}, false, "make test;apt-get update;apt-get install;make test-node;"},
		"no package":           {map[string]string{"apt-get": `test $what = update`}, false, "make test;apt-get update;apt-get install;LEFT OUT: apt-get cannot install runc"},
		"no apt-get":           {map[string]string{"apt-get": ""}, false, "make test;LEFT OUT: apt-get cannot install runc"},
		"a test fails":         {map[string]string{"make": "exit 1"}, true, "make test;"},
		"a test of nodes does": {map[string]string{"make": `test $what = test`}, true, "make test;apt-get update;apt-get install;make test-node;"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			stubs := map[string]string{"id": "echo 0", "make": "true", "apt-get": "true"}
			for program, does := range c.stubs {
				stubs[program] = does
			}
			calls := filepath.Join(bin, "calls")
			for program, does := range stubs {
				if does == "" {
					continue
				}
				if program != "id" {
					does = `for what; do case $what in test*|update|install) break; esac; done; printf '` + program + ` %s;' $what >>` + calls + "\n" + does
				}
				require.NoError(t, os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+does+"\n"), 0o755))
			}
			for _, program := range []string{"bash", "sh", "dirname", "timeout"} {
				at, err := exec.LookPath(program)
				if err != nil {
					t.Skip(err)
				}
				require.NoError(t, os.Symlink(at, filepath.Join(bin, program)))
			}
			cmd := exec.Command(filepath.Join(root(t), ".ci/run"))
			cmd.Env = []string{"PATH=" + bin}
			out, err := cmd.CombinedOutput()
			if (err != nil) != c.fails {
				t.Errorf("ends with %v\n%s", err, out)
			}
			ran, _ := os.ReadFile(calls)
			_, reason, left := strings.Cut(string(out), "LEFT OUT")
			got := string(ran)
			if left {
				got += "LEFT OUT" + reason
			}
			if !strings.HasPrefix(got, c.want) || !left && got != c.want {
				t.Errorf("runs %q, want %q\n%s", got, c.want, out)
			}
		})
	}
}
