package pods

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

const (
	uidA = "0c4d1b9e-8a55-4a3e-9f2b-1d2c3b4a5f60"
	idA  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

func TestCgroup(t *testing.T) {
	escaped := strings.ReplaceAll(uidA, "-", "_")
	for text, want := range map[string]cgroup{
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + escaped + ".slice/cri-containerd-" + idA + ".scope\n": {uidA, idA},
		"0::/kubepods.slice/kubepods-pod" + escaped + ".slice/crio-" + idA + ".scope/container\n":                                    {uidA, idA},
		"0::/../../kubepods-besteffort-pod" + escaped + ".slice/cri-containerd-" + idA + ".scope\n":                                  {uidA, idA},
		"12:devices:/user.slice\n11:memory:/kubepods/burstable/pod" + uidA + "/" + idA + "\n":                                        {uidA, idA},
		"0::/kubepods/pod" + uidA + "\n": {uidA, ""},
		"1:name=systemd:/kubepods.slice/kubepods-pod" + escaped + ".slice:cri-containerd:" + idA + "\n": {uidA, idA},
		"0::/kubelet/kubepods/burstable/pod0123456789abcdef0123456789abcdef/" + idA + "\n":              {"0123456789abcdef0123456789abcdef", idA},
		"0::/system.slice/docker-" + idA + ".scope\n":                                                   {},
		"0::/user.slice/podman-1234.scope\n":                                                            {},
		"0::/podcast\n":                                                                                 {},
		"":                                                                                              {},
		"garbage":                                                                                       {},
	} {
		got, ok := parseCgroup(text)
		if got != want || ok != (want.podUID != "") {
			t.Errorf("%q: %+v, %v; want %+v", text, got, ok, want)
		}
	}
}

func FuzzCgroup(f *testing.F) {
	f.Add("0::/kubepods/pod" + uidA + "/" + idA)
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := parseCgroup(text)
		if ok != (c.podUID != "") || c.container != "" && len(c.container) != 64 {
			t.Fatalf("%q: %+v, %v", text, c, ok)
		}
	})
}

// fakeProc writes a /proc of a node with processes in cgroups.
func fakeProc(t *testing.T, hostPID bool, cgroups map[int]string) string {
	t.Helper()
	proc := t.TempDir()
	put := func(path, text string) {
		t.Helper()
		path = filepath.Join(proc, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	if hostPID {
		put("2/comm", "kthreadd\n")
	}
	for pid, text := range cgroups {
		put(strconv.Itoa(pid)+"/cgroup", text)
	}
	return proc
}

func TestSeesHost(t *testing.T) {
	require.NoError(t, seesHost(fakeProc(t, true, nil)))
	if err := seesHost(fakeProc(t, false, nil)); err == nil || !strings.Contains(err.Error(), "hostPID: true") {
		t.Errorf("err = %v", err)
	}
	proc := fakeProc(t, false, nil)
	require.NoError(t, os.MkdirAll(filepath.Join(proc, "self", "ns"), 0o755))
	require.NoError(t, os.Symlink(hostPIDNamespace, filepath.Join(proc, "self", "ns", "pid")))
	require.NoError(t, seesHost(proc))
}
