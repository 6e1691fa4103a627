package partition

import (
	"reflect"
	"strings"
	"testing"
)

func TestBadTables(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1}`:                        "want a JSON list of strings",
		`["H100-80GB 7"]`:                "[0]: MIG table",
		`["X 99 8 0 0"]`:                 "[0]: MIG table of X: 99 compute slices",
		strings.Repeat(" ", 70000) + "[": "70001 bytes",
		`["","","","","","","","",""]`:   "9 products",
	} {
		if _, err := ParseTables(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), TableAnnotation) {
			t.Errorf("%.40s: err = %v, want %q", text, err, want)
		}
	}
	if got, err := ParseTables(""); got != nil || err != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
}

// FuzzTables: tables that are read survive writing and reading.
func FuzzTables(f *testing.F) {
	f.Add(`["H100-80GB 7 8 81559 0 1g.10gb:0,1,2,3,4,5,6:1:7 3g.40gb:0,4:4:2:0:3g.39gb"]`)
	f.Add(`[""]`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		specs, err := ParseTables(text)
		if err != nil || len(specs) == 0 {
			return
		}
		again, err := FormatTables(specs)
		if err != nil {
			t.Fatalf("%q was read and cannot be written: %v", text, err)
		}
		if back, err := ParseTables(again); err != nil || !reflect.DeepEqual(back, specs) {
			t.Fatalf("%q came back as %v: %v", again, back, err)
		}
	})
}
