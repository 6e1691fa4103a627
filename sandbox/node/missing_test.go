//go:build linux

package node

import (
	"os"
	"strings"
	"testing"
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
