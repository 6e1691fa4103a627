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
	err               error // of gathering: nothing else is there then
}

// describe makes the self-metrics that scrapes serve from now on.
func (n *Node) describe() {
	page, err := newSelfPage(n.metrics)
	if err != nil {
		n.log.Error("gathering the exporter's own metrics", "error", err)
		page = &selfPage{err: err}
	}
	n.self.Store(page)
}

func newSelfPage(m *metrics) (*selfPage, error) {
	families, err := m.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gathering self-metrics: %w", err)
	}
	text, err := encode(families, expfmt.FmtText)
	if err != nil {
		return nil, err
	}
	openMetrics, err := encode(families, expfmt.FmtOpenMetrics_1_0_0)
	return &selfPage{text: text, openMetrics: openMetrics}, err
}

// encode gives the end of an exposition, OpenMetrics' "# EOF" included.
func encode(families []*dto.MetricFamily, format expfmt.Format) ([]byte, error) {
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, format)
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", f.GetName(), err)
		}
	}
	if closer, ok := encoder.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			return nil, fmt.Errorf("ending the self-metrics: %w", err)
		}
	}
	return out.Bytes(), nil
}
