package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// value reads one series of an exposition.
func value(t *testing.T, body, series string) float64 {
	t.Helper()
	for line := range strings.Lines(body) {
		if name, text, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == series {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no %s in:\n%s", series, body)
	return 0
}

// A short soak: readings and scrapes by the dozen leave nothing behind. The long
// one is make bench-exporter ARGS="-soak 60s".
func TestSoak(t *testing.T) {
	_, base := start(t, "--replay", "testdata/mixed.txt", "-c", "100", "-k", "--pod-resources-kubelet-socket", serveKubelet(t), "--enable-exporter-metrics")
	const reads = `gpuscale_exporter_reads_total{result="ok"}`
	scrapesUntil := func(n float64) (body string) {
		until(t, "readings", func() (bool, string) {
			_, body = get(t, base+"/metrics")
			return strings.Contains(body, reads) && value(t, body, reads) >= n, body
		})
		return body
	}
	before := scrapesUntil(10)
	for range 500 {
		get(t, base+"/metrics")
	}
	scrapesUntil(value(t, before, reads) + 20)
	// What was left behind stays; garbage that is not collected yet, and connections that
	// are not closed yet, do not.
	until(t, "nothing left behind", func() (bool, string) {
		_, after := get(t, base+"/metrics")
		for series, most := range map[string]float64{"go_goroutines": 4, "process_open_fds": 4, "go_memstats_heap_inuse_bytes": 8 << 20} {
			if grown := value(t, after, series) - value(t, before, series); grown > most {
				return false, fmt.Sprintf("%s grew by %g, at most %g is none", series, grown, most)
			}
		}
		return true, ""
	})
}
