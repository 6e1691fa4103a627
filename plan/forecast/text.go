package forecast

import (
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// way is a method with its season.
func way(m Method, season time.Duration) string {
	if season == 0 {
		return string(m)
	}
	return string(m) + " over " + sample.Short(season)
}

// because returns Forecast.Why: why best was taken, and, where usual is another attempt, why usual was not.
func because(best, usual *attempt, e Error) string {
	why := fmt.Sprintf("%s erred least in %d tests", way(best.method, best.season), e.Tests)
	if ratio, ok := e.MASE.Get(); best.method == Last {
		why = fmt.Sprintf("no method was reliably better than the last value in %d tests", e.Tests)
	} else if ok {
		why = fmt.Sprintf("%s erred %.2g times as much as the last value in %d tests", way(best.method, best.season), ratio, e.Tests)
	}
	if usual != best {
		why += fmt.Sprintf("; %s, which did better before, is far from the newest %d values", way(usual.method, usual.season), newest)
	}
	return why
}
