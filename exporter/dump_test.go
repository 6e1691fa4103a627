package main

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/internal/require"
)

func reading() *collect.Reading {
	taken := time.Unix(1_800_000_000, 0).UTC()
	return &collect.Reading{Taken: taken, Dropped: map[string]int{"blank": 1}, Entities: []collect.Entity{{
		Kind: collect.GPU, UUID: "GPU-a", Model: "L40S",
		Values: []collect.Value{{Field: 203, Number: 37, Time: taken}, {Field: 53, Text: "165", IsText: true, Time: taken}},
	}}}
}

func dumperIn(t *testing.T, compress bool, hours int) *dumper {
	t.Helper()
	o := dumpOptions{enabled: true, directory: filepath.Join(t.TempDir(), "dumps"), retentionHours: hours, compress: compress}
	return &dumper{dumpOptions: o, log: slog.New(slog.DiscardHandler)}
}

// A dump has the whole reading, so that it can be inspected later.
func TestDumpIsTheReading(t *testing.T) {
	for _, compress := range []bool{false, true} {
		d := dumperIn(t, compress, 24)
		name, err := d.save(reading())
		require.NoError(t, err)
		if !dumpName.MatchString(filepath.Base(name)) || strings.HasSuffix(name, ".gz") != compress {
			t.Errorf("name %s", name)
		}
		file, err := os.Open(name)
		require.NoError(t, err)
		defer file.Close()
		var r io.Reader = file
		if compress {
			r, err = gzip.NewReader(file)
			require.NoError(t, err)
		}
		var got collect.Reading
		if err := json.NewDecoder(r).Decode(&got); err != nil || !reflect.DeepEqual(&got, reading()) {
			t.Errorf("compress %v: %v, %+v", compress, err, got)
		}
		if files, _ := os.ReadDir(d.directory); len(files) != 1 {
			t.Errorf("%d files, want no .part left", len(files))
		}
	}
}

// The retention removes only old files of the exporter.
func TestDumpRetention(t *testing.T) {
	d := dumperIn(t, true, 2)
	old, err := d.save(reading())
	require.NoError(t, err)
	foreign := filepath.Join(d.directory, "core.json")
	write(t, foreign, "{}")
	long := time.Now().Add(-3 * time.Hour)
	for _, name := range []string{old, foreign} {
		require.NoError(t, os.Chtimes(name, long, long))
	}
	fresh, err := d.save(reading())
	require.NoError(t, err)
	d.clean(time.Now())
	for name, want := range map[string]bool{old: false, foreign: true, fresh: true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: there %v, want %v", filepath.Base(name), err == nil, want)
		}
	}
	for _, hours := range []int{0, 1001, 3_000_000, math.MaxInt} {
		d.retentionHours = hours
		d.clean(time.Now().Add(1000 * time.Hour))
		if _, err := os.Stat(fresh); err != nil {
			t.Errorf("%d hours: %v; 0 means for ever", hours, err)
		}
	}
	d.directory = foreign // this is no folder, and causes a line in the log
	if _, err := d.save(reading()); err == nil || !strings.Contains(err.Error(), "dump directory") {
		t.Errorf("err = %v", err)
	}
}
