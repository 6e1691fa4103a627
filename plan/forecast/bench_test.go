package forecast

import (
	"testing"
	"time"
)

// BenchmarkWeekByMinute is a week at one minute: at most 50 ms on two cores of 2026.
func BenchmarkWeekByMinute(b *testing.B) {
	points, _ := shape{level: 100, daily: 50, noise: 5, step: time.Minute, length: Week}.draw(1, 0)
	query := Query{Now: now, Horizons: []time.Duration{15 * time.Minute}}
	b.ReportAllocs()
	for b.Loop() {
		Make(points, query)
	}
}

// BenchmarkFourWeeksByMinute is four weeks at one minute for three horizons, with both seasons.
func BenchmarkFourWeeksByMinute(b *testing.B) {
	points, _ := shape{level: 100, daily: 50, weekly: 10, noise: 5, step: time.Minute, length: 4 * Week}.draw(1, 0)
	query := Query{Now: now, Horizons: []time.Duration{15 * time.Minute, time.Hour, Day}}
	b.ReportAllocs()
	for b.Loop() {
		Make(points, query)
	}
}
