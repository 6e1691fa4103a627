package forecast

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/gpuscale/gpuscale/gpu/sample"
)

// TestScenarios runs testdata/*.txt:
//
//	series step=5m for=7d level=100 …   draws a series that ends now (see shape)
//	hole from=3h to=1h                  drops the points between
//	jump from=3h to=1h times=2          multiplies them
//	spike at=2h is=1e300                replaces one value
//	repeat every=24h at=2h is=50        replaces one value a season
//	forecast in=(15m 1h) [why]          queries; also step, interval, later (a later Now)
//
// -rewrite writes the outputs again.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var points []sample.Point
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			a := args{t, d}
			switch d.Cmd {
			case "series":
				points = a.series()
			case "hole":
				points = without(points, func(i int) bool { return a.within(points[i]) })
			case "jump":
				for i := range points {
					if a.within(points[i]) {
						points[i].Number *= a.number("times", 1)
					}
				}
			case "spike":
				points[nearest(points, a.span("at", 0))].Number = a.number("is", 0)
			case "repeat":
				for ago := a.span("at", 0); ago < now.Sub(points[0].At); ago += a.span("every", Day) {
					points[nearest(points, ago)].Number = a.number("is", 0)
				}
			case "forecast":
				var out strings.Builder
				query := Query{Now: now.Add(a.span("later", 0)), Horizons: a.spans("in"), Step: a.span("step", 0)}
				for _, f := range MakeEach(points, query, a.number("interval", usualLevel))[0] {
					fmt.Fprintln(&out, f)
					if d.HasArg("why") {
						fmt.Fprintln(&out, "  "+f.Why)
					}
				}
				return out.String()
			default:
				d.Fatalf(t, "no such command: %s", d.Cmd)
			}
			return fmt.Sprintf("%d points\n", len(points))
		})
	})
}

// args reads a command's arguments.
type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) series() []sample.Point {
	s := shape{
		level: a.number("level", 0), daily: a.number("daily", 0), weekly: a.number("weekly", 0), trend: a.number("trend", 0),
		noise: a.number("noise", 0), walk: a.number("walk", 0), poisson: a.d.HasArg("counted"),
		step: a.span("step", 5*time.Minute), length: a.span("for", Day),
	}
	past, _ := s.draw(uint64(a.number("seed", 1)), 0)
	return past
}

func (a args) within(p sample.Point) bool {
	ago := now.Sub(p.At)
	return ago <= a.span("from", math.MaxInt64) && ago >= a.span("to", 0)
}

func (a args) number(key string, otherwise float64) float64 {
	var text string
	if a.d.MaybeScanArgs(a.t, key, &text) {
		if _, err := fmt.Sscan(text, &otherwise); err != nil {
			a.d.Fatalf(a.t, "%s: %v", key, err)
		}
	}
	return otherwise
}

func (a args) span(key string, otherwise time.Duration) time.Duration {
	return append(a.spans(key), otherwise)[0]
}

// spans reads durations, 7d too.
func (a args) spans(key string) []time.Duration {
	out := []time.Duration{}
	for _, arg := range a.d.CmdArgs {
		if arg.Key != key {
			continue
		}
		for _, word := range strings.Fields(strings.Join(arg.Vals, " ")) {
			var days int
			if n, err := fmt.Sscanf(word, "%dd", &days); err == nil && n == 1 {
				out = append(out, time.Duration(days)*Day)
				continue
			}
			span, err := time.ParseDuration(word)
			if err != nil {
				a.d.Fatalf(a.t, "%s: %v", key, err)
			}
			out = append(out, span)
		}
	}
	return out
}

// nearest returns the index of the point nearest to ago before now.
func nearest(points []sample.Point, ago time.Duration) int {
	best := 0
	for i, p := range points {
		if (now.Sub(p.At) - ago).Abs() < (now.Sub(points[best].At) - ago).Abs() {
			best = i
		}
	}
	return best
}

// String is the forecast in one line.
func (f Forecast) String() string {
	if !f.Enough {
		return fmt.Sprintf("in %s: not enough data: %s: %s", sample.Short(f.Horizon), f.Reason, f.Why)
	}
	return fmt.Sprintf("in %s: %s (%s … %s at %.3g %%) by %s; %s", sample.Short(f.Horizon),
		number(f.Expected), number(f.Low), number(f.High), 100*f.Level, way(f.Method, f.Season), f.Error)
}

// String is the error in one line.
func (e Error) String() string {
	return fmt.Sprintf("MAPE %s, MASE %s, coverage %s in %d tests", number(e.MAPE), number(e.MASE), number(e.Coverage), e.Tests)
}

// number prints a value to three digits.
func number(v sample.Value) string {
	x, ok := v.Get()
	if !ok {
		return "unknown"
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}
