package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// window of a report.
const window = 30 * 24 * time.Hour

func retentionShort(l *look) {
	if l.noCards() || !l.use(Retention) {
		return
	}
	if l.f.Retention == "" {
		l.cannot("the server does not say how long it keeps what it has (only Prometheus itself does)")
		return
	}
	keeps, sized, err := parseRetention(l.f.Retention)
	switch {
	case err != nil:
		l.cannot("storageRetention %q: %v", Clean(l.f.Retention, maxName), err)
	case keeps > 0 && keeps < window:
		l.warn(Finding{
			Object: "Prometheus", Seen: "storageRetention is " + l.f.Retention,
			Means: fmt.Sprintf("a report over the usual 30 days has a record of %s, says so and exits with 3", days(keeps)),
			Fix:   "Keep at least 30 days (--storage.tsdb.retention.time, or spec.retention of the Prometheus resource), or ask for less: gpuscale-report --since " + days(keeps) + ".",
		})
	case sized && keeps == 0:
		l.cannot("storageRetention %q is a size: how many days that is depends on how much comes in", Clean(l.f.Retention, maxName))
	}
}

// days writes a retention as --since takes it.
func days(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	}
	return strconv.FormatFloat(d.Hours(), 'f', -1, 64) + "h"
}

// parseRetention reads Prometheus' own words: "15d", "1y2w", "30d or 512GiB", "10GiB".
// keeps is 0 where no time is given; sized says that a size is.
func parseRetention(text string) (keeps time.Duration, sized bool, err error) {
	for part := range strings.SplitSeq(text, " or ") {
		part = strings.TrimSpace(part)
		if strings.HasSuffix(part, "B") {
			sized = true
			continue
		}
		d, err := prometheusDuration(part)
		if err != nil {
			return 0, false, err
		}
		keeps = d
	}
	return keeps, sized, nil
}

// units of a duration as Prometheus writes it, the largest first.
var units = []struct {
	name string
	of   time.Duration
}{{"y", 365 * 24 * time.Hour}, {"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}

func prometheusDuration(text string) (time.Duration, error) {
	rest, sum := text, time.Duration(0)
	for _, u := range units {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		after := rest[len(digits):]
		if digits == "" || !strings.HasPrefix(after, u.name) || strings.HasPrefix(after, "ms") {
			continue
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n > int((1<<62)/u.of) {
			return 0, fmt.Errorf("%q: is too long", text)
		}
		sum += time.Duration(n) * u.of
		if sum < 0 {
			return 0, fmt.Errorf("%q: is too long", text)
		}
		rest = after[len(u.name):]
	}
	if rest != "" || text == "" {
		return 0, fmt.Errorf("%q: want a duration such as 30d", text)
	}
	return sum, nil
}
