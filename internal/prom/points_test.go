package prom

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// TestPlainPoints: what servers write goes the short way, what they do not the long.
func TestPlainPoints(t *testing.T) {
	for text, plain := range map[string]bool{
		`[[1,"2"]]`:                           true,
		`[[1.5,"NaN"],[2e0,"+Inf"],[3,"-0"]]`: true,
		`[]`:                                  false,
		`[ [1,"2"]]`:                          false,
		`[[1,"2"] ]`:                          false,
		`[[1,"2"];[3,"4"]]`:                   false,
		`[[1,"2"]][`:                          false,
		`[[1, "2"]]`:                          false,
		`[[1,"\u0032"]]`:                      false,
		`[[1,"2",3]]`:                         false,
		`[[1,"1e999"]]`:                       false,
		`null`:                                false,
	} {
		if _, ok := plainPoints([]byte(text)); ok != plain {
			t.Errorf("%s: the short way is %v, want %v", text, ok, plain)
		}
	}
}

// FuzzPoints: of JSON, the short way reads what the long way reads.
func FuzzPoints(f *testing.F) {
	for _, seed := range []string{`[[1,"2"]]`, `[[1.5,"NaN"],[2,"+Inf"]]`, `[[1,"0x1p4"]]`, `[[1,"1_0"]]`, `[[1,"2"],]`, `[["1","2"]]`, `[[1,"2"],3]`, `[[[1,"2"]]`, `[[1,","],["]]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		short, ok := plainPoints([]byte(text))
		if !ok || !json.Valid([]byte(text)) { // the decoder hands over JSON alone
			return
		}
		var raw [][2]json.RawMessage
		if err := json.Unmarshal([]byte(text), &raw); err != nil || len(raw) != len(short) {
			t.Fatalf("%d points, %d the long way: %v", len(short), len(raw), err)
		}
		for i, r := range raw {
			long, err := point(r)
			if err != nil {
				t.Fatal(err)
			}
			if !short[i].Time.Equal(long.Time) || math.Float64bits(short[i].Value) != math.Float64bits(long.Value) {
				t.Errorf("point %d is %v, the long way %v", i, short[i], long)
			}
		}
	})
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
