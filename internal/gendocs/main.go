package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/report/doctor"
)

func main() {
	dir := flag.String("dir", "docs", "folder to write into")
	flag.Parse()
	if err := write(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	about, err := abouts()
	if err != nil {
		return err
	}
	pages := []struct{ name, text string }{
		{"metrics.md", metricsPage(metric.All(), metric.Reads(), seriesOf(signal.Builtin(docAge)))},
		{"reasons.md", reasonsPage(plan.Reasons())},
		{"doctor.md", doctorPage(doctor.All())},
		{"signals.md", signalsPage(signal.Builtin(docAge), about)},
	}
	for _, p := range pages {
		path := filepath.Join(dir, p.name)
		if err := os.WriteFile(path, []byte(p.text), 0o644); err != nil {
			return fmt.Errorf("writing a page: %w", err)
		}
	}
	return nil
}
