package node

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Handler answers scrapes: the page as of now and the self-metrics of the last second, in
// the format negotiated. It is safe for any number of scrapes at once, reads memory only,
// and nothing of the request but its headers. Compression is an option: it takes several
// times the CPU of the rest.
func (n *Node) Handler() http.Handler {
	var buffers, zippers sync.Pool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buffer, _ := buffers.Get().(*[]byte)
		if buffer == nil {
			buffer = new([]byte)
		}
		defer buffers.Put(buffer)
		format, began := expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...), time.Now()
		out, err := n.render((*buffer)[:0], format, began)
		if err != nil {
			n.log.Error("rendering a scrape", "error", err)
			http.Error(w, "rendering failed: "+err.Error(), http.StatusInternalServerError)
			return
		}
		*buffer = out
		n.metrics.scrapeTime.Observe(time.Since(began).Seconds())
		w.Header().Set("Content-Type", string(format))
		n.send(w, r, out, &zippers)
	})
}

// send writes the body. What fails is the connection, which the server sees.
// zippers are kept for their tables, which are larger than most pages.
func (n *Node) send(w http.ResponseWriter, r *http.Request, body []byte, zippers *sync.Pool) {
	if n.opts.Compress {
		w.Header().Set("Vary", "Accept-Encoding")
	}
	if !n.opts.Compress || !takesGzip(r.Header) {
		// With its length the body goes out in one piece, not in chunks.
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, _ := zippers.Get().(*gzip.Writer)
	if z == nil {
		z, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is a valid one
	} else {
		z.Reset(w)
	}
	defer zippers.Put(z)
	_, _ = z.Write(body)
	_ = z.Close()
}

// takesGzip reports whether Accept-Encoding has gzip and does not refuse it.
func takesGzip(h http.Header) bool {
	whatever := false
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, weight, _ := strings.Cut(part, ";")
		_, q, weighed := strings.Cut(weight, "q=")
		wanted := !weighed || strings.Trim(q, "0. ") != ""
		switch strings.TrimSpace(coding) {
		case "gzip":
			return wanted
		case "*":
			whatever = wanted
		}
	}
	return whatever
}

// render appends the page as of now, then the self-metrics.
func (n *Node) render(out []byte, format expfmt.Format, now time.Time) ([]byte, error) {
	self := n.self.Load()
	if self.err != nil {
		return out, self.err
	}
	kind := format.FormatType()
	openMetrics := kind == expfmt.TypeOpenMetrics
	if page := n.page.Load(); page != nil {
		var count collect.Count
		out, count = page.Append(out, now, openMetrics)
		n.metrics.series.Set(float64(count.Series))
		n.metrics.stale.Add(float64(count.Stale))
	}
	switch {
	case openMetrics:
		return append(out, self.openMetrics...), nil
	case kind == expfmt.TypeTextPlain:
		return append(out, self.text...), nil
	}
	return reencode(out, self, format)
}

// reencode turns the page's text into another format, protobuf mostly, and adds
// the self-metrics. It is the slow path: no scraper prefers it by default.
func reencode(text []byte, self *selfPage, format expfmt.Format) ([]byte, error) {
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, format)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("re-encoding the page: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if err := encoder.Encode(families[name]); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", name, err)
		}
	}
	if err := self.encodeTo(encoder); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
