package build

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

// TestANeighbourIsCompiledFromItsOwnModule: its go.mod is changed only in a copy.
func TestANeighbourIsCompiledFromItsOwnModule(t *testing.T) {
	o, _ := checkout(t)
	module := filepath.Join(t.TempDir(), "module")
	const published = "module example.org/n\nreplace example.org/n/api => ./api\nrequire example.org/n/api v0.0.0-00010101000000-000000000000\n"
	write(t, filepath.Join(module, "go.mod"), published)
	write(t, filepath.Join(module, "go.sum"), "")
	calls := filepath.Join(t.TempDir(), "calls")
	fakeGo(t, `case "$1 $2" in
"mod download") printf '{"Dir": "`+module+`"}'; exit ;;
esac
case "$1" in
build)
  for a; do case $a in -modfile=*) echo "build in $PWD of $(cat "${a#-modfile=}" | tr '\n' ' ')" >> `+calls+` ;; esac; done
  while [ "$1" != -o ]; do shift; done; echo p > "$2/server" ;;
esac`)
	n := Neighbour{Name: "Example", Module: "example.org/n", Version: "v1.2.3", packages: []string{"cmd/server"}}
	path, err := n.Program(t.Context(), o, "server")
	require.NoError(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(calls)
	if want := "build in " + module + " of module example.org/n require example.org/n/api v1.2.3 \n"; err != nil || string(text) != want {
		t.Errorf("%v: %q, want %q", err, text, want)
	}
	if mod, _ := os.ReadFile(filepath.Join(module, "go.mod")); string(mod) != published {
		t.Errorf("the module itself has changed: %s", mod)
	}
}
