package node

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Handler answers scrapes: the page and the self-metrics as of now, as text or OpenMetrics. It is
// safe for any number of scrapes at once, reads memory only, and nothing of the request but its
// headers. Compression is an option: it takes several times the CPU of the rest.
func (n *Node) Handler() http.Handler {
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		format, began := expfmt.NegotiateAccept(r.Header, expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtOpenMetrics_0_0_1, expfmt.FmtText), time.Now()
		out, err := n.render(format, began)
		if err != nil {
			n.log.Error("rendering a scrape", "error", err)
			http.Error(w, "rendering failed: "+err.Error(), http.StatusInternalServerError)
			return
		}
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

// render gives the page as of now, then the self-metrics.
func (n *Node) render(format expfmt.Format, now time.Time) (out []byte, err error) {
	if page := n.page.Load(); page != nil {
		var count collect.Count
		out, count = page.Text(now, format.FormatType() == expfmt.TypeOpenMetrics)
		n.metrics.series.Set(float64(count.Series))
		n.metrics.stale.Add(float64(count.Stale))
	}
	families, err := n.metrics.registry.Gather()
	text := bytes.NewBuffer(out)
	encoder := expfmt.NewEncoder(text, format)
	for _, f := range families {
		err = errors.Join(err, encoder.Encode(f))
	}
	if end, ok := encoder.(expfmt.Closer); ok { // OpenMetrics has one
		err = errors.Join(err, end.Close())
	}
	if err != nil {
		err = fmt.Errorf("gathering the exporter's own metrics: %w", err)
	}
	return text.Bytes(), err
}
