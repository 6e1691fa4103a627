package prom

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestPoints(t *testing.T) {
	for text, want := range map[string]int{
		`[[1,"2"]]`: 1, `[[1.5,"NaN"],[2e0,"+Inf"],[3,"-0"]]`: 3, `[]`: 0, `[ [1, "2"] , [3,"4"] ]`: 2,
		`[[1,"2",3]]`: -1, `[["1","2"]]`: -1, `[1,2]`: -1, `[{}]`: -1, `[[1,"x"]]`: -1, `[[]]`: -1, `null`: -1,
	} {
		var got struct{ Values points }
		err := json.Unmarshal([]byte(`{"values":`+text+`}`), &got)
		if (err != nil) != (want < 0) || err == nil && len(got.Values) != want {
			t.Errorf("%s: %v, %v", text, got.Values, err)
		}
	}
}

// TestPointsAreOneList: a list takes what its points take, not what a list that
// grows would.
func TestPointsAreOneList(t *testing.T) {
	text := []byte("[" + strings.Repeat(`[1772000000,"0.125"],`, 719) + `[1772000000,"0.125"]]`)
	var p points
	least := math.Inf(1) // of a few measurements: what else runs in the process can only add to one
	for range 5 {
		least = min(least, testing.AllocsPerRun(10, func() {
			if err := p.UnmarshalJSON(text); err != nil {
				t.Fatal(err)
			}
		}))
	}
	if least > 1 || len(p) != 720 || cap(p) != 720 {
		t.Errorf("%d points in %d places by %v allocations", len(p), cap(p), least)
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
		if err := v.read(2)(data); err != nil || !json.Valid(data) {
			return
		}
		for _, s := range v {
			if s.Time.IsZero() || !strings.Contains(strings.ToLower(element), `value`) && !strings.Contains(element, `\u`) {
				t.Errorf("%s is read as %v", element, s)
			}
		}
	})
}
