package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// Goals for gpuscale-adapter, at 100,000 series and 5,000 HPAs with two metrics
// each.
const (
	goalLatency = 5 * time.Millisecond // for 99 of 100 requests, inside the adapter
	goalMemory  = 250 << 20            // bytes resident
	// goalSpread is how far the number of queries may differ between few and
	// many HPAs: the interval is jittered by a tenth.
	goalSpread = 0.15
)

func print(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "adapter\tHPAs\tanswers\terrors\tPods p50\tp99\tExternal p50\tp99\tinside mean\t≤ 5 ms\tqueries/min\tseries/min\tLISTs/min\tSARs/min\tCPU s/min\tbench's\tRSS MiB\tpeak\tlate p99\tload\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%.2f %%\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%.1f\t%d\t%d\t%s\t%s\t\n",
			r.title, r.hpas, len(r.answers.pods)+len(r.answers.external), r.failed(),
			ms(quantile(r.answers.pods, .5)), ms(quantile(r.answers.pods, .99)), ms(quantile(r.answers.external, .5)), ms(quantile(r.answers.external, .99)),
			ms(r.inside.mean()), 100*r.inside.share(), r.queries, r.series, r.lists, r.reviews, r.cpu, r.own, r.rss>>20, r.peak>>20, ms(quantile(r.answers.late, .99)), r.load)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		for _, text := range slices.Sorted(maps.Keys(r.answers.errors)) {
			fmt.Fprintf(w, "%s, %d HPAs: %d × %s\n", r.title, r.hpas, r.answers.errors[text], text)
		}
		if r.answers.missed > 0 {
			fmt.Fprintf(w, "%s, %d HPAs: %d periods passed while an HPA still waited for its answers\n", r.title, r.hpas, r.answers.missed)
		}
	}
	return nil
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }

func (r row) failed() (n int) {
	for _, times := range r.answers.errors {
		n += times
	}
	return n
}

// missed lists the goals that gpuscale-adapter's rows miss, each in a sentence.
func missed(rows []row) []string {
	var out []string
	for _, r := range rows {
		say := func(format string, args ...any) {
			out = append(out, fmt.Sprintf("%d HPAs: ", r.hpas)+fmt.Sprintf(format, args...)+" (load average "+r.load+")")
		}
		if share := r.inside.share(); share < .99 {
			say("%.2f %% of requests took at most %s inside the adapter, not 99 %%", 100*share, goalLatency)
		}
		if r.lists > 0 {
			say("%.0f LISTs a minute, not none", r.lists)
		}
		if r.rss > goalMemory {
			say("%d MiB resident, not at most %d", r.rss>>20, goalMemory>>20)
		}
		if least := rows[0].queries; r.queries > least*(1+goalSpread) {
			say("%.0f queries a minute, %.0f with %d HPAs", r.queries, least, rows[0].hpas)
		}
		if n := r.failed(); n > 0 {
			say("%d answers were errors", n)
		}
	}
	return out
}
