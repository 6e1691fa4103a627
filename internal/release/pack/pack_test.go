package pack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var at = time.Unix(1_790_000_000, 123_456_789)

func list(t *testing.T, data []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%04o %d/%d%s%s %d %s %q\n", h.Mode, h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime.Unix(), h.Name, body)
	}
}

func TestTarGz(t *testing.T) {
	got, err := TarGz([]File{{"b/c/d", 0o644, []byte("two")}, {"a", 0o755, []byte("one")}}, at)
	if err != nil {
		t.Fatal(err)
	}
	const want = `0755 0/0 1790000000 a "one"
0755 0/0 1790000000 b/ ""
0755 0/0 1790000000 b/c/ ""
0644 0/0 1790000000 b/c/d "two"
`
	if l := list(t, got); l != want {
		t.Errorf("got\n%swant\n%s", l, want)
	}
}

// Two trees of the same files, written in another order, with other times and
// under another umask, are the same archive.
func TestSameBytes(t *testing.T) {
	archive := func(mode os.FileMode, names ...string) []byte {
		dir := t.TempDir()
		for i, name := range names {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("about "+name), mode); err != nil {
				t.Fatal(err)
			}
			when := time.Unix(int64(1000*(i+1)), 0)
			if err := os.Chtimes(file, when, when); err != nil {
				t.Fatal(err)
			}
		}
		files, err := Folder(os.DirFS(dir), ".", "top", func(name string) bool { return name != "left-out" })
		if err != nil {
			t.Fatal(err)
		}
		data, err := TarGz(files, at)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	a, b := archive(0o644, "x/y", "left-out", "z"), archive(0o600, "z", "x/y")
	if !bytes.Equal(a, b) {
		t.Errorf("two archives of the same files differ:\n%s\n%s", list(t, a), list(t, b))
	}
	if strings.Contains(list(t, a), "left-out") {
		t.Error("a file that is not to be kept is in the archive")
	}
}

func TestRefused(t *testing.T) {
	for name, files := range map[string][]File{
		"absolute":      {{Name: "/etc/passwd"}},
		"leaves":        {{Name: "../x"}},
		"the root":      {{Name: "."}},
		"stands twice":  {{Name: "a"}, {Name: "a"}},
		"file a folder": {{Name: "a/b/../c"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := TarGz(files, at); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestLinksAreRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	_, err := Folder(os.DirFS(dir), ".", "", func(string) bool { return true })
	if err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}
