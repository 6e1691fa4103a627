//go:build linux

package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

func TestEverythingMissingIsNamedAtOnce(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	defer func(was []string) { pluginFolders = was }(pluginFolders)
	pluginFolders = []string{t.TempDir()}
	err := findMissing()
	if err == nil {
		t.Fatal("nothing is missing")
	}
	want := []string{"runc", "iptables", "ip\n", "CNI plugins in " + pluginFolders[0], "apt-get install -y --no-install-recommends runc iptables mount iproute2 containernetworking-plugins"}
	if os.Geteuid() != 0 {
		want = append(want, "root: this is another user")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("lacks %q:\n%v", w, err)
		}
	}
}

// TestIptablesThatWritesNothing tests Debian's iptables on a kernel without nftables for IPv4.
func TestIptablesThatWritesNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes namespaces")
	}
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "iptables"), []byte("#!/bin/sh\necho 'TABLE_ADD failed (Operation not supported)' >&2\nexit 4\n"), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	if err := findMissing(); err == nil || !strings.Contains(err.Error(), "iptables rules of its own: exit status 4: TABLE_ADD failed") {
		t.Errorf("err = %v", err)
	}
}
