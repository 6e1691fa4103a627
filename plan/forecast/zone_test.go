package forecast

import (
	"math"
	"slices"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/require"
)

// Users in a zone begin at eight by their clock, also on the days after it was set back (in Berlin on 2026-10-25) or
// forward (2027-03-28). The forecasts for twenty past are made at ten past eight and ten to eight.
func TestClockOfTheZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for _, day := range []time.Time{time.Date(2026, 10, 25, 0, 0, 0, 0, berlin), time.Date(2026, 10, 26, 0, 0, 0, 0, berlin), time.Date(2027, 3, 29, 0, 0, 0, 0, berlin)} {
		for _, c := range []struct {
			minutes int
			want    float64
		}{{7*60 + 10, 2}, {7*60 + 50, 10}, {18*60 + 10, 10}, {18*60 + 50, 2}} {
			now := time.Date(day.Year(), day.Month(), day.Day(), 0, c.minutes, 0, 0, berlin)
			var points []sample.Point
			for at := now.AddDate(0, 0, -7); !at.After(now); at = at.Add(5 * time.Minute) {
				x := 2.0
				if hour := at.In(berlin).Hour(); hour >= 8 && hour < 19 {
					x = 10
				}
				points = append(points, sample.Point{At: at, Number: x})
			}
			query := Query{Now: now, Horizons: []time.Duration{20 * time.Minute}, Zone: berlin}
			f := Make(points, query)[0]
			if got, _ := f.Expected.Get(); !f.Enough || math.Abs(got-c.want) > 1 {
				t.Errorf("%s: want %v, got %v by %s (%s)", now, c.want, f.Expected, f.Method, f.Why)
			}
			if !f.At.Equal(now.Add(20 * time.Minute)) {
				t.Errorf("%s: the forecast is for %s", now, f.At)
			}
		}
	}
}

// Of the hour that the clock shows twice, the values of the second one count. No value of a later time counts as past.
func TestHourThatIsShownTwice(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	back := time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC) // 03:00 becomes 02:00
	var points []sample.Point
	for at := back.Add(-115 * time.Minute); at.Before(back.Add(30 * time.Minute)); at = at.Add(10 * time.Minute) {
		points = append(points, sample.Point{At: at, Number: at.Sub(back).Minutes()})
	}
	var got []float64
	for _, p := range onClock(points, berlin) {
		got = append(got, p.Number)
	}
	if want := []float64{-115, -105, -95, -85, -75, -65, 5, 15, 25}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
