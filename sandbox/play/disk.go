package play

import (
	"fmt"
	"path/filepath"
	"syscall"
)

// leastFree bytes below which programs can no longer write. Not all of
// them die of it: some only stop working, and the story would fail for an
// unrelated reason.
const leastFree = 1 << 20

// checkDisk that holds the world's folder.
func checkDisk(dir string, least uint64) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return nil // unknown, which is no failure
	}
	if s.Bavail*uint64(s.Bsize) >= least {
		return nil
	}
	return fmt.Errorf("the disk is full: the programs cannot write to %s any more (another place: TMPDIR=<folder>)", filepath.Dir(dir))
}
