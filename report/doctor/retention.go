package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// window of a report.
const window = 30 * 24 * time.Hour

func retentionShort(l *look) {
	if l.noGPUs() || !l.use(Retention) {
		return
	}
	if l.f.Retention == "" {
		l.skip("only Prometheus itself reports its retention, and this server is another")
		return
	}
	keeps, sized, err := parseRetention(l.f.Retention)
	switch {
	case err != nil:
		l.cannot("storageRetention %q: %v", Clean(l.f.Retention, maxName), err)
	case keeps > 0 && keeps < window:
		l.warn(Finding{
			Object: "Prometheus", Seen: "storageRetention is " + l.f.Retention,
			Means: fmt.Sprintf("a report over the usual 30 days has a record of %s, notes it and exits with 3", days(keeps)),
			Fix:   "Keep at least 30 days (--storage.tsdb.retention.time, or spec.retention of the Prometheus resource), or report on less: gpuscale-report --since " + days(keeps) + ".",
		})
	case sized && keeps == 0:
		l.cannot("storageRetention %q is a size: the days depend on the ingestion rate", Clean(l.f.Retention, maxName))
	}
}

// days writes a retention as --since takes it.
func days(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	}
	return strconv.FormatFloat(d.Hours(), 'f', -1, 64) + "h"
}

// parseRetention reads Prometheus' retention: "15d", "1y2w", "30d or 512GiB", "10GiB".
// keeps is 0 where no time is given; sized reports a size.
func parseRetention(text string) (keeps time.Duration, sized bool, err error) {
	for part := range strings.SplitSeq(text, " or ") {
		part = strings.TrimSpace(part)
		if strings.HasSuffix(part, "B") {
			sized = true
			continue
		}
		d, err := model.ParseDuration(part)
		if err != nil {
			return 0, false, err
		}
		keeps = time.Duration(d)
	}
	return keeps, sized, nil
}
