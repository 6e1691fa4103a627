package boards_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/states"
)

// goal is what a panel may cost of a processor, over six hours of 10,000 cards in
// steps of two minutes: about what Grafana asks for a panel of half a screen.
const goal = 200 * time.Millisecond

// cost of a panel: a processor's time, which a busy machine does not lengthen much,
// unlike the time on the wall.
type cost struct {
	panel string
	took  time.Duration
}

// BenchmarkPanels asks every panel of every board for six hours of 10,000 cards and
// prints what each costs, the dearest first. Everything is chosen in the variables,
// but namespace and node where GPUSCALE_NARROW is set: one of each.
func BenchmarkPanels(b *testing.B) {
	f, err := madeFleet()
	if err != nil {
		b.Fatal(err)
	}
	s, _ := states.Find(states.Healthy)
	to := s.Start().Add(12 * time.Minute)
	w := eval.Window{From: to.Add(-6 * time.Hour), To: to, Step: 2 * time.Minute, Scrape: states.Every}
	src := eval.Engine(f)
	var all []cost
	for b.Loop() {
		all = nil
		for _, board := range committed() {
			vars, err := eval.All(b.Context(), src, board.d, w)
			if err != nil {
				b.Fatal(err)
			}
			if os.Getenv("GPUSCALE_NARROW") != "" {
				vars["namespace"], vars["node"] = "team-1", ".*-1"
			}
			for _, p := range eval.Panels(board.d) {
				before := spent(b)
				if _, err := eval.Ask(b.Context(), src, p, vars, w); err != nil {
					b.Logf("%s/%s: %v", board.uid, *p.Title, err)
				}
				all = append(all, cost{strings.TrimPrefix(board.uid, "gpuscale-") + "/" + *p.Title, spent(b) - before})
			}
		}
	}
	slices.SortFunc(all, func(x, y cost) int { return cmp.Compare(y.took, x.took) })
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	over := 0
	fmt.Fprintf(out, "\npanel\tms\t\n")
	for _, c := range all {
		mark := ""
		if c.took > goal {
			over++
			mark = "over the goal"
		}
		fmt.Fprintf(out, "%s\t%.1f\t%s\n", c.panel, float64(c.took.Microseconds())/1000, mark)
	}
	out.Flush()
	b.ReportMetric(float64(over), "over-goal")
}

// spent is the processor's time that this process has used.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
