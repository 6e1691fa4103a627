package main

import (
	"io"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// plate prints a large answer at the cost of a copy: this process shares the
// processors with the adapter, and must not slow it down. Only times change from
// one print to the next: of evaluation, and of each series' last scrape.
type plate struct {
	mu      sync.Mutex // held while body is read
	body    []byte
	now     []int32 // offsets of the time of evaluation
	scraped []scrape
}

// scrape is the offset of a series' last scrape time.
type scrape struct {
	place int32
	phase int64 // of scrapes within scrapeInterval, ms
}

// newPlate takes the answer to a rule's query. Its parts "t…" have scrape times.
func newPlate(vector promql.Vector) *plate {
	p := &plate{body: []byte(head)}
	for i, s := range vector {
		if i > 0 {
			p.body = append(p.body, ',')
		}
		p.body = append(appendLabels(append(p.body, `{"metric":`...), s.Metric), `,"value":[`...)
		p.now = append(p.now, int32(len(p.body)))
		p.body = append(appendTime(p.body, 0), `,"`...)
		if part := s.Metric.Get(signal.PartLabel); part != "" && part[0] == 't' {
			p.scraped = append(p.scraped, scrape{int32(len(p.body)), int64(math.Round(s.F*1000)) % scrapeInterval})
			p.body = appendTime(p.body, 0)
		} else {
			p.body = strconv.AppendFloat(p.body, s.F, 'f', -1, 64)
		}
		p.body = append(p.body, `"]}`...)
	}
	p.body = append(p.body, "]}}"...)
	return p
}

// print writes the answer as of a time.
func (p *plate) print(w io.Writer, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := at.UnixMilli()
	text := appendTime(nil, now)
	for _, place := range p.now {
		copy(p.body[place:], text)
	}
	for _, s := range p.scraped {
		digits(p.body[s.place:], now-(now-s.phase)%scrapeInterval)
	}
	_, _ = w.Write(p.body)
}

const (
	head = `{"status":"success","data":{"resultType":"vector","result":[`
	// timeLength is the length of a time in seconds with three decimals, from
	// 2001 to 2286.
	timeLength = len("1234567890.123")
)

// appendTime writes Unix milliseconds as seconds.
func appendTime(out []byte, ms int64) []byte {
	begin := len(out)
	out = append(out, "0000000000.000"...)
	digits(out[begin:], ms)
	return out
}

// digits is appendTime in place.
func digits(out []byte, ms int64) {
	for i := timeLength - 1; i >= 0; i-- {
		if out[i] == '.' {
			continue
		}
		out[i] = byte('0' + ms%10)
		ms /= 10
	}
}

// appendVector writes an answer evaluated at a time.
func appendVector(out []byte, vector promql.Vector, at time.Time) []byte {
	out = append(out, head...)
	for i, s := range vector {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendLabels(append(out, `{"metric":`...), s.Metric), `,"value":[`...)
		out = append(appendTime(out, at.UnixMilli()), `,"`...)
		out = append(strconv.AppendFloat(out, s.F, 'f', -1, 64), `"]}`...)
	}
	return append(out, "]}}"...)
}

// appendLabels as JSON. All names and values of the fleet are plain ASCII.
func appendLabels(out []byte, ls labels.Labels) []byte {
	out = append(out, '{')
	ls.Range(func(l labels.Label) {
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = strconv.AppendQuote(out, l.Name)
		out = strconv.AppendQuote(append(out, ':'), l.Value)
	})
	return append(out, '}')
}
