package eval_test

import (
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// TestHappened: events are counted in the time in which they happened, whatever its
// beginning shows. Values are of every five minutes, the last ones of the twenty that
// are counted.
func TestHappened(t *testing.T) {
	end := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, values string
		want         float64
	}{
		{"nothing", "7 7 7 7 7 7 7", 0},
		{"begins with its first event", "_ _ _ _ _ 1 1", 1},
		{"begins with several", "_ _ _ _ _ 3 3", 3},
		{"Prometheus was down at the beginning", "7 7 _ _ _ 7 7 7", 0},
		{"and there were others meanwhile", "7 7 _ _ _ 9 9 9", 2},
		{"the process was restarted before, and an event came after", "7 7 stale _ _ _ _ 1 1", 1},
		{"ended", "_ _ _ _ _ 2 stale _", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			series, err := memstore.Read(`x{instance="a"} `+c.values, memstore.Until(end, 5*time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			query, err := eval.Fill("sum("+board.Happened("x", "$__range")+")", nil, eval.Window{From: end.Add(-20 * time.Minute), To: end})
			if err != nil {
				t.Fatal(err)
			}
			got, err := eval.Engine(series).Query(t.Context(), query, end)
			if err != nil || len(got) != 1 || got[0].Value != c.want {
				t.Errorf("%v, %v: want %v", got, err, c.want)
			}
		})
	}
}
