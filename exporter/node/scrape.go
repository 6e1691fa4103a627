package node

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Handler answers scrapes: the page as of now and the self-metrics, in the
// format negotiated, never compressed (gzip costs several times the rest). It
// is safe for any number of scrapes at once and reads memory only.
func (n *Node) Handler() http.Handler {
	var buffers sync.Pool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buffer, _ := buffers.Get().(*[]byte)
		if buffer == nil {
			buffer = new([]byte)
		}
		defer buffers.Put(buffer)
		format := expfmt.NegotiateIncludingOpenMetrics(r.Header)
		out := bytes.NewBuffer((*buffer)[:0])
		if err := n.render(out, format, time.Now()); err != nil {
			n.log.Error("rendering a scrape", "error", err)
			http.Error(w, "rendering failed: "+err.Error(), http.StatusInternalServerError)
			return
		}
		*buffer = out.Bytes()
		w.Header().Set("Content-Type", string(format))
		_, _ = w.Write(*buffer)
	})
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
