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
		err := got.read(jsoniter.ParseString(jsoniter.ConfigDefault, `{"values":`+text+`}`))
		if (err != nil) != (want < 0) || err == nil && len(got.values) != want {
			t.Errorf("%s: %v, %v", text, got.values, err)
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
		if err := v.read(2)(jsoniter.ParseBytes(jsoniter.ConfigDefault, data)); err != nil || !json.Valid(data) {
			return
		}
		for _, s := range v {
			if s.Time.IsZero() || !strings.Contains(strings.ToLower(element), `value`) && !strings.Contains(element, `\u`) {
				t.Errorf("%s is read as %v", element, s)
			}
		}
	})
}
