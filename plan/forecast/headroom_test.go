package forecast

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

func TestHeadroom(t *testing.T) {
	f := Forecast{
		Horizon: time.Hour, Low: sample.Known(10, 0), Expected: sample.Known(30, 0), High: sample.Known(31, 0),
		Method: Level, Enough: true, Reason: Enough,
	}
	huge := f
	huge.High = sample.Known(1e300, 0)
	none := Forecast{Low: f.Low, Expected: f.Expected, High: f.High, Reason: Stale, Why: "the newest value is old"}
	for name, c := range map[string]struct {
		f     Forecast
		bound Bound
		each  float64
		have  int
		want  int
		says  string
	}{
		"exactly enough":     {f, ForExpected, 10, 3, 0, "3 wanted, 3 there"},
		"a part is a whole":  {f, ForHigh, 10, 3, 1, "headroom of 1: 31 high in 1h by level"},
		"low":                {f, ForLow, 10, 0, 1, "10 low"},
		"too many there":     {f, ForHigh, 10, 9, 0, "no headroom"},
		"a rounding error":   {f, ForExpected, 30.0 / 3.0000000000001, 3, 0, "3 wanted"},
		"less than none":     {f, ForExpected, 10, -4, 3, "3 wanted, 0 there"},
		"beyond all numbers": {huge, ForHigh, 1e-300, 7, math.MaxInt32 - 7, "headroom of"},
		"nothing carried":    {f, ForHigh, 0, 0, 0, "is no measure"},
		"less than nothing":  {f, ForHigh, -1, 0, 0, "is no measure"},
		"NaN carried":        {f, ForHigh, math.NaN(), 0, 0, "is no measure"},
		"all carried":        {f, ForHigh, math.Inf(1), 0, 0, "is no measure"},
		"no such bound":      {f, "best", 10, 0, 0, "best is unknown"},
		"not enough data":    {none, ForHigh, 10, 0, 0, "not enough data: the newest value is old"},
	} {
		got, says := Headroom(c.f, c.bound, c.each, c.have)
		if got != c.want || !strings.Contains(says, c.says) {
			t.Errorf("%s: %d, %q, want %d, %q", name, got, says, c.want, c.says)
		}
	}
}
