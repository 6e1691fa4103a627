package prom

import (
	"strings"
	"testing"
)

// FuzzDecode: whatever a server sends, decoding ends, holds to its limit, and
// never makes a sample out of something that has no value.
func FuzzDecode(f *testing.F) {
	f.Add(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1.5,"NaN"]}]},"warnings":["w"]}`)
	f.Add(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}`)
	f.Add(`{"data":null}`)
	f.Add(`[]`)
	f.Add(`{"data":{"resultType":"vector","result":{"a":1}}}`)
	f.Fuzz(func(t *testing.T, body string) {
		a, err := decode(strings.NewReader(body), 2)
		if len(a.vector) > 2 {
			t.Fatalf("%d series held", len(a.vector))
		}
		if err == nil && len(a.vector) > strings.Count(body, "value") {
			t.Fatalf("%d samples out of %q", len(a.vector), body)
		}
	})
}

func BenchmarkDecode100k(b *testing.B) {
	var body strings.Builder
	body.WriteString(`{"status":"success","data":{"resultType":"vector","result":[`)
	for i := range 100_000 {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(`{"metric":{"namespace":"team","pod":"vllm-7d4b9c-abcde","model_name":"llama","engine":"0","job":"vllm","instance":"10.0.0.1:8000"},"value":[1700000000.123,"42"]}`)
	}
	body.WriteString(`]}}`)
	b.ReportAllocs()
	b.SetBytes(int64(body.Len()))
	for b.Loop() {
		if a, err := decode(strings.NewReader(body.String()), 1e6); err != nil || len(a.vector) != 100_000 {
			b.Fatal(err, len(a.vector))
		}
	}
}
