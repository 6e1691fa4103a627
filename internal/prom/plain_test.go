package prom

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// FuzzPlain: the short way says the same as the general way of whatever valid
// element it takes.
func FuzzPlain(f *testing.F) {
	for _, element := range []string{
		`{"metric":{"__name__":"up","pod":"a"},"value":[1700000000.123,"42"]}`,
		`{"metric":{},"value":[1,"NaN"]}`, `{"metric":{"a":""},"value":[1,"+Inf"]}`, `{"metric":{"b":"1","a":"2"},"value":[1,"1"]}`,
		`{"metric":{"a":"1","a":"2"},"value":[1,"1"]}`, `{"metric":{"a":"\u0041"},"value":[1,"1"]}`, `{ "metric":{"a":"b"},"value":[1,"1"]}`,
		`{"metric":{"a":"b"},"value":[1,"1"],"histogram":{}}`, `{"metric":{"a":"b"},"value":[1,"1e999"]}`, "{\"metric\":{\"a\":\"\xff\"},\"value\":[1,\"1\"]}",
		`{"metric":{"a":"b","c":"d"},"value":[1,"0x1p4"]}`, `{"metric":{"a":"b",},"value":[1,"1"]}`,
	} {
		f.Add(element)
	}
	f.Fuzz(func(t *testing.T, element string) {
		short := decoder{seen: map[string]string{}}
		got, ok := short.plain([]byte(element))
		if !ok || !json.Valid([]byte(element)) {
			return
		}
		// A blank before it sends the same element the general way.
		a, err := decode(strings.NewReader(`{"data":{"resultType":"vector","result":[`+strings.Replace(element, "{", "{ ", 1)+`]}}`), 2)
		if err != nil || len(a.vector) != 1 {
			t.Fatalf("%q is %v, but the general way says %v, %v", element, got, a.vector, err)
		}
		want := a.vector[0]
		same := got.Value == want.Value || math.IsNaN(got.Value) && math.IsNaN(want.Value)
		if !same || !got.Time.Equal(want.Time) || !slices.Equal(got.Labels, want.Labels) {
			t.Fatalf("%q is %v, but the general way says %v", element, got, want)
		}
	})
}

// TestPlainTakesWhatServersSend, or decoding costs what it did before.
func TestPlainTakesWhatServersSend(t *testing.T) {
	d := decoder{seen: map[string]string{}}
	first, ok := d.plain([]byte(`{"metric":{"namespace":"team","pod":"vllm-0"},"value":[1700000000.123,"NaN"]}`))
	if !ok || first.Labels.Get("pod") != "vllm-0" {
		t.Fatalf("%v, %v", first, ok)
	}
	second, ok := d.plain([]byte(`{"metric":{"namespace":"team"},"value":[1700000000,"1"]}`))
	if !ok || len(second.Labels) != 1 {
		t.Fatalf("%v, %v", second, ok)
	}
	// Samples share a block, and one's append must not write into the next.
	_ = append(first.Labels, Label{"z", "z"})
	if second.Labels.Get("namespace") != "team" {
		t.Errorf("the next sample is now %v", second)
	}
}
