package prom

import (
	"encoding/json"
	"strings"
	"testing"

	jsoniter "github.com/json-iterator/go"
)

func TestPoints(t *testing.T) {
	for text, want := range map[string]int{
		`[[1,"2"]]`: 1, `[[1.5,"NaN"],[2e0,"+Inf"],[3,"-0"]]`: 3, `[]`: 0, `[ [1, "2"] , [3,"4"] ]`: 2, `null`: 0,
		`[[1,"2",3]]`: -1, `[["1","2"]]`: -1, `[1,2]`: -1, `[{}]`: -1, `[[1,"x"]]`: -1, `[[1,2]]`: -1, `[[]]`: -1, `[[1,"2"`: -1,
	} {
		var got series
		it := jsoniter.ParseString(jsoniter.ConfigDefault, `{"values":`+text+`}`)
		if got.read(it); (it.Error != nil) != (want < 0) || it.Error == nil && len(got.values) != want {
			t.Errorf("%s: %v, %v", text, got.values, it.Error)
		}
	}
}

// Whatever a server sends, an element without a value is never one with a number.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{`{"metric":{"a":"b"},"value":[1,"2"]}`, `{}`, `{"metric":{},"value":null}`, `{"metric":{},"value":[1,"NaN"]}`, `{"metric":{},"histogram":[1,{}]}`, `{"value":[]}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, element string) {
		data := []byte(`{"resultType":"vector","result":[` + element + `]}`)
		var v Vector
		it := jsoniter.ParseBytes(jsoniter.ConfigDefault, data)
		if v.read(2)(it); it.Error != nil || !json.Valid(data) {
			return
		}
		for _, s := range v {
			if s.Time.IsZero() || !strings.Contains(strings.ToLower(element), `value`) && !strings.Contains(element, `\u`) {
				t.Errorf("%s is read as %v", element, s)
			}
		}
	})
}
