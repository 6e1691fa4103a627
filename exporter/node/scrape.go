package node

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Handler answers scrapes: the page as of now and the self-metrics of the last second, as text
// or OpenMetrics. It is safe for any number of scrapes at once. It reads memory and the
// request's headers only. Compression is an option, since it takes several times the CPU of
// the rest.
func (n *Node) Handler() http.Handler {
	var buffers sync.Pool
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buffer, _ := buffers.Get().(*[]byte)
		if buffer == nil {
			buffer = new([]byte)
		}
		defer buffers.Put(buffer)
		format, began := expfmt.NegotiateAccept(r.Header, expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtOpenMetrics_0_0_1, expfmt.FmtText), time.Now()
		out := n.render((*buffer)[:0], format, began)
		*buffer = out
		n.metrics.scrapeTime.Observe(time.Since(began).Seconds())
		w.Header().Set("Content-Type", string(format))
		// With its length the body goes out in one piece, not in chunks.
		w.Header().Set("Content-Length", strconv.Itoa(len(out)))
		_, _ = w.Write(out) // what fails is the connection, which the server sees
	})
	if !n.opts.Compress {
		return plain
	}
	compress, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return compress(plain)
}

// render appends the page as of now, then the self-metrics.
func (n *Node) render(out []byte, format expfmt.Format, now time.Time) []byte {
	self, openMetrics := n.self.Load(), format.FormatType() == expfmt.TypeOpenMetrics
	if page := n.page.Load(); page != nil {
		var count collect.Count
		out, count = page.Append(out, now, openMetrics)
		n.metrics.series.Set(float64(count.Series))
		n.metrics.stale.Add(float64(count.Stale))
	}
	if openMetrics {
		return append(out, self.openMetrics...)
	}
	return append(out, self.text...)
}

// selfInterval is the greatest age of served self-metrics. Gathering and encoding
// them takes longer than copying a small page out, so it is done off the scrape
// path.
const selfInterval = time.Second

// selfPage is the self-metrics of one moment, in both formats.
type selfPage struct{ text, openMetrics []byte }

// describe gathers the self-metrics that scrapes serve from now on. The OpenMetrics text has its end
// mark. What cannot be gathered is logged and left out.
func (n *Node) describe() {
	var text, openMetrics bytes.Buffer
	families, err := n.metrics.registry.Gather()
	for _, f := range families {
		_, inText := expfmt.MetricFamilyToText(&text, f)
		_, inOpenMetrics := expfmt.MetricFamilyToOpenMetrics(&openMetrics, f)
		err = errors.Join(err, inText, inOpenMetrics)
	}
	_, end := expfmt.FinalizeOpenMetrics(&openMetrics)
	if err = errors.Join(err, end); err != nil {
		n.log.Error("gathering the exporter's own metrics", "error", err)
	}
	n.self.Store(&selfPage{text.Bytes(), openMetrics.Bytes()})
}
