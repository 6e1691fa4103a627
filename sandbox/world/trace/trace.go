package trace

import "time"

// Bounds of a request's values. A trace beyond them is rejected: it is probably a misread column.
const (
	MaxTokens   = 1 << 20
	MaxSpan     = 31 * 24 * time.Hour
	MaxRequests = 5_000_000
)

// Request is one arrival.
type Request struct {
	At        time.Duration // offset from the first request of the trace
	Context   int           // prompt tokens, at least 1
	Generated int           // answer tokens, at least 1
}

// Trace is a list of requests in order of arrival; the first is at 0.
type Trace struct {
	Name     string // shown to users: "azure-conv", "synthetic(seed 1)"
	Requests []Request
}

// Length is the offset of the last request, 0 for an empty trace.
func (t Trace) Length() time.Duration {
	if len(t.Requests) == 0 {
		return 0
	}
	return t.Requests[len(t.Requests)-1].At
}

// Until returns the trace without the requests that arrive after the limit. It shares its requests with t.
func (t Trace) Until(limit time.Duration) Trace {
	n := 0
	for n < len(t.Requests) && t.Requests[n].At <= limit {
		n++
	}
	return Trace{Name: t.Name, Requests: t.Requests[:n]}
}
