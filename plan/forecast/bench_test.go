package forecast

import (
	"testing"
	"time"
)

// BenchmarkMake is a week at one minute, at most 50 ms on two cores of 2026, and four weeks for
// three horizons, with both seasons.
func BenchmarkMake(b *testing.B) {
	for name, s := range map[string]shape{
		"week":       {level: 100, daily: 50, noise: 5, step: time.Minute, length: Week},
		"four weeks": {level: 100, daily: 50, weekly: 10, noise: 5, step: time.Minute, length: 4 * Week},
	} {
		b.Run(name, func(b *testing.B) {
			points, _ := s.draw(1, 0)
			query := Query{Now: now, Horizons: []time.Duration{15 * time.Minute, time.Hour, Day}[:s.length/(4*Week)*2+1]}
			b.ReportAllocs()
			for b.Loop() {
				Make(points, query)
			}
		})
	}
}
