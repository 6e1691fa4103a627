package node

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Handler answers scrapes: the page as of now and the self-metrics, in the
// format negotiated. It is safe for any number of scrapes at once, reads memory
// only, and nothing of the request but its headers. Compression has to be asked
// for by Options: it takes several times the rest.
func (n *Node) Handler() http.Handler {
	var buffers sync.Pool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buffer, _ := buffers.Get().(*[]byte)
		if buffer == nil {
			buffer = new([]byte)
		}
		defer buffers.Put(buffer)
		format, began := expfmt.NegotiateIncludingOpenMetrics(r.Header), time.Now()
		out := bytes.NewBuffer((*buffer)[:0])
		if err := n.render(out, format, began); err != nil {
			n.log.Error("rendering a scrape", "error", err)
			http.Error(w, "rendering failed: "+err.Error(), http.StatusInternalServerError)
			return
		}
		*buffer = out.Bytes()
		n.metrics.scrapeTime.Observe(time.Since(began).Seconds())
		w.Header().Set("Content-Type", string(format))
		n.send(w, r, *buffer)
	})
}

// send writes the body. What fails is the connection, which the server sees.
func (n *Node) send(w http.ResponseWriter, r *http.Request, body []byte) {
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
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is a valid one
	_, _ = z.Write(body)
	_ = z.Close()
}

// takesGzip reports whether Accept-Encoding has gzip and does not refuse it.
func takesGzip(h http.Header) bool {
	any := false
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, weight, _ := strings.Cut(part, ";")
		_, q, weighed := strings.Cut(weight, "q=")
		wanted := !weighed || strings.Trim(q, "0. ") != ""
		switch strings.TrimSpace(coding) {
		case "gzip":
			return wanted
		case "*":
			any = wanted
		}
	}
	return any
}

// render writes the page as of now, then the self-metrics.
func (n *Node) render(out *bytes.Buffer, format expfmt.Format, now time.Time) error {
	encoder := expfmt.NewEncoder(out, format)
	openMetrics := format.FormatType() == expfmt.TypeOpenMetrics
	if page := n.page.Load(); page != nil {
		text, count := page.Append(out.AvailableBuffer(), now, openMetrics)
		n.metrics.series.Set(float64(count.Series))
		n.metrics.drops.WithLabelValues("stale").Add(float64(count.Stale))
		if openMetrics || format.FormatType() == expfmt.TypeTextPlain {
			out.Write(text)
		} else if err := reencode(encoder, text); err != nil {
			return err
		}
	}
	families, err := n.metrics.registry.Gather()
	if err != nil {
		return fmt.Errorf("gathering self-metrics: %w", err)
	}
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			return fmt.Errorf("encoding %s: %w", f.GetName(), err)
		}
	}
	if closer, ok := encoder.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// reencode turns the page's text into the encoder's format, protobuf mostly. It
// is the slow path: no scraper prefers it unless told to.
func reencode(encoder expfmt.Encoder, text []byte) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("re-encoding the page: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		if err := encoder.Encode(families[name]); err != nil {
			return fmt.Errorf("encoding %s: %w", name, err)
		}
	}
	return nil
}
