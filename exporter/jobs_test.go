package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/internal/require"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func TestJobFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "0"), "job1\njob2\r\n\n job1 \n")
	write(t, filepath.Join(dir, "1.11"), "train \"a\"")
	write(t, filepath.Join(dir, "2"), "")
	write(t, filepath.Join(dir, "notes"), "no GPU")
	write(t, filepath.Join(dir, "0.x"), "no instance")
	write(t, filepath.Join(dir, "-1"), "no GPU")
	write(t, filepath.Join(dir, "3/0"), "in a folder")
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "4"), 0o600))
	require.NoError(t, os.Symlink("1.11", filepath.Join(dir, "5")))
	// Users' jobs may write to the folder, so a page must have no line of the exporter's other files.
	secret := filepath.Join(t.TempDir(), "token")
	write(t, secret, "secret")
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "6")))
	got, err := readJobs(dir)
	want := map[collect.JobPlace][]string{{GPU: 0, Instance: -1}: {"job1", "job2"}, {GPU: 1, Instance: 11}: {`train "a"`}, {GPU: 5, Instance: -1}: {`train "a"`}}
	if !strings.Contains(fmt.Sprint(err), filepath.Join(dir, "6")) || strings.Contains(fmt.Sprint(err), "\n") || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v and an error about 6", got, err, want)
	}
}

func TestJobFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	var many strings.Builder
	for i := range maxJobs + 1 {
		fmt.Fprintf(&many, "job%d\n", i)
	}
	write(t, filepath.Join(dir, "0"), many.String())
	write(t, filepath.Join(dir, "1"), strings.Repeat("x", maxJobFile+1))
	write(t, filepath.Join(dir, "2"), "fine")
	got, err := readJobs(dir)
	if err == nil || len(got[collect.JobPlace{GPU: 0, Instance: -1}]) != maxJobs || len(got[collect.JobPlace{GPU: 2, Instance: -1}]) != 1 {
		t.Errorf("%d, %v", len(got), err)
	}
	for _, want := range []string{filepath.Join(dir, "0") + ": more than 100 jobs", filepath.Join(dir, "1") + ": "} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}

// A scheduler's prologue writes a file and its epilogue removes it. A folder that does not exist yet is logged once and
// tried again.
func TestJobsComeAndGo(t *testing.T) {
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "jobs")
	j := newJobMap(dir, slog.New(slog.NewTextHandler(&log, nil)))
	j.read()
	if n := strings.Count(log.String(), "job mapping not read"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
	write(t, filepath.Join(dir, "0"), "a")
	j.read()
	if len(j.jobs()) != 1 || !strings.Contains(log.String(), "read again") {
		t.Errorf("jobs %v, log:\n%s", j.jobs(), &log)
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "0")))
	j.read()
	if len(j.jobs()) != 0 {
		t.Errorf("an ended job stays: %v", j.jobs())
	}
}

func FuzzParseJobPlace(f *testing.F) {
	for _, name := range []string{"0", "0.11", "1.", ".1", "+1", "0x1", "65536", "1.2.3"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		place, ok := parseJobPlace(name)
		if ok && (place.GPU < 0 || place.Instance < -1 || (place.Instance == -1) == strings.Contains(name, ".")) {
			t.Errorf("%q: %+v", name, place)
		}
	})
}
