package observe

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan/forecast"
)

// A forecast for a holiday follows the weekend before, and the log says so once.
func TestForecastOfAHoliday(t *testing.T) {
	now := time.Date(2026, 12, 25, 6, 0, 0, 0, time.UTC)
	week := past(func(string) ([]prom.Line, error) {
		var l prom.Line
		for at := now.AddDate(0, 0, -7); !at.After(now); at = at.Add(5 * time.Minute) {
			x := 2.0
			if d := at.Weekday(); at.Hour() >= 7 && at.Hour() < 19 && d != time.Saturday && d != time.Sunday {
				x = 10
			}
			l.Points = append(l.Points, prom.Point{Time: at, Value: x})
		}
		return []prom.Line{l}, nil
	})
	var log bytes.Buffer
	o := NewOutlooks(week, []Series{{
		Namespace: "chat", Kind: "Deployment", Name: "vllm", Query: "q", PerReplica: 1, Horizon: 2 * time.Hour, History: 7 * 24 * time.Hour, Step: 5 * time.Minute,
		Holidays: forecast.NewHolidays(time.UTC, []time.Weekday{time.Saturday, time.Sunday}, []time.Time{now}),
	}}, time.Minute, slog.New(slog.NewTextHandler(&log, nil)))
	o.Once(t.Context(), now)
	o.Once(t.Context(), now)
	_, expected, _, _, unsure := o.Latest()[0].replicas()
	if unsure != "" || expected < 1.9 || expected > 2.1 {
		t.Errorf("%v replicas, unsure %q: want the weekend's 2", expected, unsure)
	}
	if n := strings.Count(log.String(), `msg="forecast for a holiday" workload=Deployment/chat/vllm why="2026-12-25 is a holiday`); n != 1 {
		t.Errorf("the log says it %d times, want once:\n%s", n, &log)
	}
}
