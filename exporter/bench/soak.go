package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// grown are the series that show whether a process grows.
var grown = []struct{ title, series string }{
	{"heap in use, bytes", "go_memstats_heap_inuse_bytes"},
	{"resident, bytes", "process_resident_memory_bytes"},
	{"goroutines", "go_goroutines"},
	{"descriptors", "process_open_fds"},
	{"readings", `gpuscale_exporter_reads_total{result="ok"}`},
	{"scrapes", "gpuscale_exporter_scrape_duration_seconds_count"},
}

// soak samples ten times a second, DCGM's maximum, and scrapes as often.
func (l *lab) soak(ctx context.Context, d time.Duration) error {
	x, err := l.start(ctx, setup{remote: true, gpus: 8, instances: 7, args: []string{"-c", "100", "--enable-exporter-metrics"}})
	if err != nil {
		return err
	}
	defer x.stop()
	tick, end := time.NewTicker(100*time.Millisecond), time.After(d)
	defer tick.Stop()
	settled := time.After(d / 6) // caches and pools fill at first
	var first map[string]float64
	for {
		body, err := x.get("/metrics")
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-settled:
			first = numbers(body)
		case <-end:
			return printGrowth(first, numbers(body))
		case <-tick.C:
		}
	}
}

func printGrowth(first, last map[string]float64) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tafter a sixth\tat the end\t")
	for _, g := range grown {
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t\n", g.title, first[g.series], last[g.series])
	}
	return w.Flush()
}

// numbers reads series and their values from the text format.
func numbers(body []byte) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		series, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			out[series] = v
		}
	}
	return out
}
