package kube

import (
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// UseLogger redirects client-go's klog to log. klog's logger is a global that must
// not change while it is used: only the first call in a process has an effect.
func UseLogger(log *slog.Logger) {
	once.Do(func() { klog.SetSlogLogger(log.With("from", "client-go")) })
}

var once sync.Once

// Repeated are the errors that were returned lately, one a line, and when: each is logged once.
type Repeated map[string]time.Time

// forgetAfter is how long after it was last returned an error is logged again.
const forgetAfter = 10 * time.Minute

// New reports whether err has an error that was not returned lately.
func (r Repeated) New(err error, now time.Time) (isNew bool) {
	maps.DeleteFunc(r, func(_ string, at time.Time) bool { return now.Sub(at) > forgetAfter })
	if err == nil {
		return false
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		_, had := r[line]
		r[line], isNew = now, isNew || !had
	}
	return isNew
}
