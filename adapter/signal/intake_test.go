package signal

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
)

// FuzzIntake: each sample is what NewSample makes of the same labels, in
// whatever order series come and go. A text is a series to a line, its labels
// with spaces between.
func FuzzIntake(f *testing.F) {
	f.Add("gpuscale_part=v0 pod=a\ngpuscale_part=t0 pod=a\n\ngpuscale_part=v0 pod=a\npod=b\n\npod=b zone=a")
	f.Add("__name__=up pod=a\npod=a\na=pod\n\na=1 b=2\na=2 b=1\na=1 b=2")
	f.Fuzz(func(t *testing.T, text string) {
		in := NewIntake()
		for answer := range strings.SplitSeq(text, "\n\n") {
			in.Begin()
			var want []Sample
			for line := range strings.SplitSeq(answer, "\n") {
				set := map[string]string{}
				for word := range strings.FieldsSeq(line) {
					if name, value, ok := strings.Cut(word, "="); ok && name != "" && value != "" {
						set[name] = value
					}
				}
				var pairs [][2][]byte
				for _, name := range slices.Sorted(maps.Keys(set)) {
					pairs = append(pairs, [2][]byte{[]byte(name), []byte(set[name])})
				}
				in.Add(pairs, float64(len(want)))
				for _, p := range pairs { // as the next answer does
					copy(p[1], strings.Repeat("x", len(p[1])))
				}
				want = append(want, NewSample(sorted(set), float64(len(want))))
			}
			if got := in.End(); !slices.EqualFunc(got, want, func(a, b Sample) bool {
				return a.Part == b.Part && labels.Equal(a.Labels, b.Labels) && math.Float64bits(a.Value) == math.Float64bits(b.Value)
			}) {
				t.Fatalf("%q is %v, want %v", answer, got, want)
			}
		}
	})
}

func sorted(set map[string]string) func(func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for _, name := range slices.Sorted(maps.Keys(set)) {
			if !yield(name, set[name]) {
				return
			}
		}
	}
}

// TestKnownSeriesTakeNoMemory, and those that have ended are forgotten.
func TestKnownSeriesTakeNoMemory(t *testing.T) {
	in := NewIntake()
	series := func(n int) (all [][2][]byte) {
		return [][2][]byte{{[]byte(PartLabel), []byte("v0")}, {[]byte("namespace"), []byte("chat")}, {[]byte("pod"), []byte{'a' + byte(n%26), 'a' + byte(n/26)}}}
	}
	var pods [][][2][]byte
	for n := range 100 {
		pods = append(pods, series(n))
	}
	answer := func() {
		in.Begin()
		for _, p := range pods {
			in.Add(p, 1)
		}
		in.End()
	}
	answer()
	least := math.Inf(1) // of a few measurements: what else runs in the process can only add to one
	for range 5 {
		least = min(least, testing.AllocsPerRun(5, answer))
	}
	if least > 1 { // the slice of samples
		t.Errorf("%v allocations for what is known", least)
	}
	pods = pods[:1]
	answer()
	if len(in.sets) != 1 {
		t.Errorf("%d label sets are kept of 1", len(in.sets))
	}
}
