package prom_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
)

// BenchmarkQuery reads the series of 8,000 GPUs. Goal: 2 ms of processor time for each thousand, so that the
// autoscaler's nine queries take a hundredth of a core.
func BenchmarkQuery(b *testing.B) {
	var body strings.Builder
	body.WriteString(`{"status":"success","data":{"resultType":"vector","result":[`)
	for n := range 8000 {
		if n > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"metric":{"__name__":"gpuscale_gpu_held","gpu":"%d","uuid":"GPU-5fd4f087-86f3-7a43-b711-%012d","node":"base-%05d",`+
			`"instance":"10.0.0.1:9400","job":"gpuscale-exporter","namespace":"gpuscale","pod":"gpuscale-exporter-x7k2p"},"value":[1772000000.123,"1"]}`, n%8, n, n/8)
	}
	body.WriteString("]}}")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body.String())) }))
	defer server.Close()
	c, err := prom.New(prom.Config{URL: server.URL})
	require.NoError(b, err)
	b.SetBytes(int64(body.Len()))
	for b.Loop() {
		if v, err := c.Query(b.Context(), "gpuscale_gpu_held", time.Time{}); err != nil || len(v) != 8000 {
			b.Fatal(len(v), err)
		}
	}
}
