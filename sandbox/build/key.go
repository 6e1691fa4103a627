package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// key names everything a binary depends on: the nested module's sources and
// versions, how it is built, and the Go that builds it.
func (t target) key(root string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH, t.args, t.pkgs, t.output)
	if t.source != nil {
		fmt.Fprintln(h, *t.source)
		return hex.EncodeToString(h.Sum(nil))[:16], nil
	}
	dir := filepath.Join(root, filepath.FromSlash(t.module))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("reading the sources of %s: %w", t.title, err)
	}
	for _, e := range entries { // sorted by name
		name := e.Name()
		if e.IsDir() || !slices.Contains([]string{".go", ".mod", ".sum"}, filepath.Ext(name)) || strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", fmt.Errorf("reading the sources of %s: %w", t.title, err)
		}
		fmt.Fprintf(h, "%s %d\n", name, len(data))
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
