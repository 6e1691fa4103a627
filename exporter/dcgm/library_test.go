package dcgm

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/internal/cbuild"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
)

const envChild = "GPUSCALE_TEST_DCGM_CHILD"

// TestLibraryChild runs in a process of its own, started by the tests below, since a loaded library stays.
func TestLibraryChild(t *testing.T) {
	path, ok := os.LookupEnv(envChild)
	if !ok {
		t.Skip("only as a child of other tests")
	}
	s, err := New(Options{LibraryPath: path})
	switch {
	case err == nil:
		watchFields(t, s, 203)
		r, err := s.Read()
		t.Logf("outcome: opened: %+v, %v", r, err)
		t.Log("closed:", s.Close())
	case errors.Is(err, ErrNoLibrary):
		t.Log("outcome: no library:", err)
	case errors.Is(err, ErrLibraryTooOld):
		t.Log("outcome: too old:", err)
	default:
		t.Log("outcome: other:", err)
	}
}

// outcome opens a library in a child without the fake on its path.
func outcome(t *testing.T, libraryPath string, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLibraryChild$", "-test.v")
	cmd.Env = append(env, envChild+"="+libraryPath, envLibraries+"=none")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the child died: %v\n%s", err, out)
	}
	_, after, ok := strings.Cut(string(out), "outcome: ")
	if !ok {
		t.Fatalf("no outcome in:\n%s", out)
	}
	return after
}

func TestMissingLibrary(t *testing.T) {
	if got := outcome(t, ""); !strings.HasPrefix(got, "no library: libdcgm.so.4 cannot be loaded") {
		if strings.HasPrefix(got, "opened") {
			t.Skip("this machine has NVIDIA's own library")
		}
		t.Errorf("got %s", got)
	}
	if got := outcome(t, "/nonexistent/libdcgm.so.4"); !strings.Contains(got, "/nonexistent/libdcgm.so.4") {
		t.Errorf("got %s", got)
	}
}

// Beside a remote host engine there is no driver library. An instance still has
// its UUID and profile, which DCGM reports, and no placement.
func TestLibraryByPathWithoutDriver(t *testing.T) {
	m := newMachine(t, 1)
	m.partition(0, "3g.40gb@0")
	m.write()
	got := outcome(t, filepath.Join(os.Getenv(envLibraries), "libdcgm.so.4"), fakenvml.EnvState+"="+m.path)
	for _, want := range []string{
		"opened: ", "InstanceID:1 Profile:3g.40gb Start:-1 Size:0 ComputeSlices:3 InstanceUUID:MIG-00000000-",
		"closed: <nil>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
}

// A missing function of a library must not end the process at its first call.
func TestOldLibrary(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "old.c")
	text := "int dcgmInit(void) { return 0; }\nint dcgmShutdown(void) { return 0; }\n"
	require.NoError(t, os.WriteFile(source, []byte(text), 0o600))
	lib := filepath.Join(dir, "libdcgm.so.4")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-Wl,-soname,libdcgm.so.4", "-o", lib, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := outcome(t, lib)
	if !strings.HasPrefix(got, "too old:") || !strings.Contains(got, "dcgmEntitiesGetLatestValues") ||
		strings.Contains(got, "dcgmInit,") {
		t.Errorf("got %s", got)
	}
}

// The shim's types have the layout of NVIDIA's headers.
func TestShim(t *testing.T) {
	headers, err := cbuild.Headers(t.Context(), fakedcgm.Headers)
	require.NoError(t, err)
	if out, err := exec.Command("gcc", "-std=c11", "-fsyntax-only", "-isystem", headers, "testdata/c/shim.c").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
