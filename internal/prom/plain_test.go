package prom

import (
	"encoding/json"
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
		var d decoder
		if used, v := d.plain([]byte(element)); v != taken || used != len(element) || !json.Valid([]byte(element)) {
			return
		}
		var got vectorBuilder
		got.add(d.read)
		var long decoder
		if err := long.general([]byte(element)); err != nil {
			t.Fatalf("%q is %v, but the general way says %v", element, got.vector, err)
		}
		var want vectorBuilder
		want.add(long.read)
		if !same(got.vector, want.vector) {
			t.Fatalf("%q is %v, but the general way says %v", element, got.vector, want.vector)
		}
	})
}

// TestPlainTakesWhatServersSend, or decoding costs what it did before.
func TestPlainTakesWhatServersSend(t *testing.T) {
	var d decoder
	var b vectorBuilder
	for _, element := range []string{
		`{"metric":{"namespace":"team","pod":"vllm-0"},"value":[1700000000.123,"NaN"]}`,
		`{"metric":{"namespace":"team"},"value":[1700000000,"1"]}`,
	} {
		if used, v := d.plain([]byte(element)); v != taken || used != len(element) {
			t.Fatalf("%s: %d, %v", element, used, v)
		}
		b.add(d.read)
		for n := range len(element) { // truncated text may continue
			if _, v := d.plain([]byte(element[:n])); v != short {
				t.Fatalf("%s: %v", element[:n], v)
			}
		}
	}
	if b.vector[0].Labels.Get("pod") != "vllm-0" || len(b.vector[1].Labels) != 1 {
		t.Fatal(b.vector)
	}
	// Samples share a block, and one's append must not write into the next.
	_ = append(b.vector[0].Labels, Label{"z", "z"})
	if b.vector[1].Labels.Get("namespace") != "team" {
		t.Errorf("the next sample is now %v", b.vector[1])
	}
}
