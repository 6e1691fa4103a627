package build

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// binarySpace is the free space that the binaries and their linking need.
const binarySpace = 400 << 20

// checkDisk fails before minutes of compiling when the disk cannot hold the
// result anyway.
func checkDisk(t target, dir string) error {
	if free, ok := freeBytes(dir); ok && free < binarySpace {
		return fmt.Errorf("compiling %s: the disk is full: %s has %s free and %s are needed there (another place: %s=<folder>)",
			t.title, filepath.Dir(dir), gib(free), gib(binarySpace), CacheEnv)
	}
	if tmp := tempDir(); tmp != "" {
		if free, ok := freeBytes(tmp); ok && free < binarySpace {
			return fmt.Errorf("compiling %s: the disk is full: linking needs %s in %s, which has %s (another place: TMPDIR=<folder>)",
				t.title, gib(binarySpace), tmp, gib(free))
		}
	}
	return nil
}

func freeBytes(dir string) (uint64, bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
}

func tempDir() string {
	if d := os.Getenv("GOTMPDIR"); d != "" {
		return d
	}
	return os.TempDir()
}

func goCache() string {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return "see `go env GOCACHE`"
	}
	return strings.TrimSpace(string(out))
}
