package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestReplace: a file is replaced atomically; a link is kept and leads to the new page;
// a pipe or device is written into and kept.
func TestReplace(t *testing.T) {
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	holds := func(name, want string) {
		t.Helper()
		if raw, err := os.ReadFile(at(name)); err != nil || string(raw) != want {
			t.Errorf("%s holds %q (%v), want %q", name, raw, err, want)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := replace(at(name), []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	write("page", "long enough to be seen")
	write("page", "new")
	holds("page", "new")
	if err := os.Symlink("page", at("link")); err != nil {
		t.Fatal(err)
	}
	write("link", "by the link")
	holds("page", "by the link")
	if info, err := os.Lstat(at("link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}

	if err := syscall.Mkfifo(at("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		f, err := os.Open(at("pipe"))
		if err != nil {
			read <- err.Error()
			return
		}
		raw, _ := io.ReadAll(f)
		_ = f.Close()
		read <- string(raw)
	}()
	write("pipe", "through")
	if info, err := os.Lstat(at("pipe")); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe is gone: %v, %v", info, err) // its reader gets no data
	}
	if got := <-read; got != "through" {
		t.Errorf("the pipe brought %q", got)
	}
	left, err := filepath.Glob(at(".gpuscale-report-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left behind (%v)", left, err)
	}
	if err := replace(at("none/page"), nil); err == nil {
		t.Error("a folder that is not there was written into")
	}
	if err := replace("/dev/full", []byte("x")); err == nil {
		t.Error("a full disk took it")
	}
}
