package prom

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
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
		vector, err := decoded(strings.NewReader(body), 2)
		if len(vector) > 2 {
			t.Fatalf("%d series in memory", len(vector))
		}
		if err == nil && len(vector) > strings.Count(body, "value") {
			t.Fatalf("%d samples out of %q", len(vector), body)
		}
	})
}

// decoded is what Query would make of a body.
func decoded(r io.Reader, maxSeries int) (Vector, error) {
	var lock sync.Mutex
	lock.Lock()
	defer lock.Unlock()
	var b vectorBuilder
	_, err := decode(r, maxSeries, &lock, b.add)
	return b.vector, err
}

// FuzzScan: elements are the same however they arrive, and in whichever
// envelope: one that begins as all do, or one that does not.
func FuzzScan(f *testing.F) {
	f.Add(`{"metric":{"a":"b"},"value":[1,"2"]},{"metric":{"a":"c"},"value":[1,"NaN"]}`)
	f.Add(` {"metric":{"a":"b\u0041}"},"value":[1,"2"]} , {"metric":{"a":"c"},"value":[1.5,"+Inf"]} `)
	f.Add(`{"metric":{"a":"b"},"value":[1,"2"]},`)
	f.Add(`{"metric":{"a":"b"},"value":[1,"2"]}]},"warnings":["w"],"x":{"y":[`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, elements string) {
		body := heads[0] + elements + `]}}`
		whole, err1 := decoded(strings.NewReader(body), 3)
		pieces, err2 := decoded(iotest.OneByteReader(strings.NewReader(body)), 3)
		if (err1 == nil) != (err2 == nil) || !same(whole, pieces) {
			t.Fatalf("%q at once is %v, %v; in pieces %v, %v", body, whole, err1, pieces, err2)
		}
		if !json.Valid([]byte(body)) {
			return
		}
		other, err := decoded(strings.NewReader("{ "+body[1:]), 3)
		if (err1 == nil) != (err == nil) || err == nil && !same(whole, other) {
			t.Fatalf("%q is %v, %v; the general way says %v, %v", body, whole, err1, other, err)
		}
	})
}

func same(a, b Vector) bool {
	return slices.EqualFunc(a, b, func(a, b Sample) bool {
		return math.Float64bits(a.Value) == math.Float64bits(b.Value) && a.Time.Equal(b.Time) && slices.Equal(a.Labels, b.Labels)
	})
}

// TestTruncatedAnswers: an answer that ends early is an error wherever it
// ends, and never a shorter vector.
func TestTruncatedAnswers(t *testing.T) {
	body := heads[1] + `{"metric":{"a":"b"},"value":[1,"2"]},{"metric":{"a":"é\n"},"value":[1,"3"]}]}}`
	if v, err := decoded(strings.NewReader(body), 2); err != nil || len(v) != 2 || v[1].Labels.Get("a") != "é\n" {
		t.Fatal(v, err)
	}
	for n := range len(body) {
		if v, err := decoded(strings.NewReader(body[:n]), 2); err == nil {
			t.Fatalf("%q is read as %v", body[:n], v)
		}
	}
	if _, err := decoded(strings.NewReader(body), 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("two series where one is allowed: %v", err)
	}
}
