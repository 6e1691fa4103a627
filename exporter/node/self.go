package node

import (
	"bytes"
	"fmt"
	"io"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// selfInterval is how old served self-metrics are at most. Gathering and encoding
// them takes longer than copying a small page out, so it is done off the scrape
// path.
const selfInterval = time.Second

// selfPage is the self-metrics of one moment, in the formats that are asked for.
type selfPage struct {
	text, openMetrics []byte
	families          []*dto.MetricFamily // for the other formats; to read only
	err               error               // of gathering: nothing else is there then
}

// describe makes the self-metrics that scrapes serve from now on.
func (n *Node) describe() {
	page := newSelfPage(n.metrics)
	if page.err != nil {
		n.log.Error("gathering the exporter's own metrics", "error", page.err)
	}
	n.self.Store(page)
}

func newSelfPage(m *metrics) *selfPage {
	p := &selfPage{}
	if p.families, p.err = m.registry.Gather(); p.err != nil {
		return &selfPage{err: fmt.Errorf("gathering self-metrics: %w", p.err)}
	}
	if p.text, p.err = p.encode(expfmt.NewFormat(expfmt.TypeTextPlain)); p.err != nil {
		return &selfPage{err: p.err}
	}
	if p.openMetrics, p.err = p.encode(expfmt.NewFormat(expfmt.TypeOpenMetrics)); p.err != nil {
		return &selfPage{err: p.err}
	}
	return p
}

// encode gives the end of an exposition, OpenMetrics' "# EOF" included.
func (p *selfPage) encode(format expfmt.Format) ([]byte, error) {
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, format)
	if err := p.encodeTo(encoder); err != nil {
		return nil, err
	}
	if closer, ok := encoder.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			return nil, fmt.Errorf("ending the self-metrics: %w", err)
		}
	}
	return out.Bytes(), nil
}

func (p *selfPage) encodeTo(encoder expfmt.Encoder) error {
	for _, f := range p.families {
		if err := encoder.Encode(f); err != nil {
			return fmt.Errorf("encoding %s: %w", f.GetName(), err)
		}
	}
	return nil
}
