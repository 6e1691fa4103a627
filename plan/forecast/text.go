package forecast

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// String is the forecast in one line.
func (f Forecast) String() string {
	if !f.Enough {
		return fmt.Sprintf("in %s: not enough data: %s: %s", Short(f.Horizon), f.Reason, f.Why)
	}
	return fmt.Sprintf("in %s: %s (%s … %s at %.3g %%) by %s; %s", Short(f.Horizon),
		number(f.Expected), number(f.Low), number(f.High), 100*f.Level, f.way(), f.Error)
}

// way is the method with its season.
func (f Forecast) way() string { return way(f.Method, f.Season) }

func (a *attempt) way() string { return way(a.method, a.season) }

func way(m Method, season time.Duration) string {
	if season == 0 {
		return string(m)
	}
	return string(m) + " over " + Short(season)
}

// String is the error in one line.
func (e Error) String() string {
	return fmt.Sprintf("MAPE %s, MASE %s, coverage %s in %d tests", number(e.MAPE), number(e.MASE), number(e.Coverage), e.Tests)
}

// because is why a method was taken instead of the usual one.
func because(best, usual *attempt, e Error) string {
	why := fmt.Sprintf("%s erred least in %d tests", best.way(), e.Tests)
	if ratio, ok := e.MASE.Get(); best.method == Last {
		why = fmt.Sprintf("no method was surely better than the last value in %d tests", e.Tests)
	} else if ok {
		why = fmt.Sprintf("%s erred %.2g times as much as the last value in %d tests", best.way(), ratio, e.Tests)
	}
	if usual != best {
		why += fmt.Sprintf("; %s, which did better before, is far from the newest %d values", usual.way(), newest)
	}
	return why
}

// number prints a value to three digits.
func number(v sample.Value) string {
	x, ok := v.Get()
	if !ok {
		return "unknown"
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// Short prints a duration as Go does, without its tail of zeros.
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
