package play

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFullDiskIsReported(t *testing.T) {
	dir := t.TempDir()
	if err := checkDisk(dir, 1); err != nil {
		t.Error(err)
	}
	if err := checkDisk(dir, math.MaxUint64); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("got %v", err)
	}
	if err := checkDisk(filepath.Join(dir, "no"), math.MaxUint64); err != nil {
		t.Errorf("unknown is not full: %v", err)
	}
}
