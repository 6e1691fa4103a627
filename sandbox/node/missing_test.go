//go:build linux

package node

import (
	"os"
	"strings"
	"testing"
)

func TestEverythingMissingIsNamedAtOnce(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	defer func(folders []string, filter string) { pluginFolders, bridgeFilter = folders, filter }(pluginFolders, bridgeFilter)
	pluginFolders, bridgeFilter = []string{t.TempDir()}, t.TempDir()+"/none"
	err := findMissing()
	if err == nil {
		t.Fatal("nothing is missing")
	}
	want := []string{"runc", "iptables", "ip\n", "CNI plugins in " + pluginFolders[0], "sudo modprobe br_netfilter", "apt-get install -y --no-install-recommends runc iptables mount iproute2 containernetworking-plugins"}
	if os.Geteuid() != 0 {
		want = append(want, "root: this is another user")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("lacks %q:\n%v", w, err)
		}
	}
}
