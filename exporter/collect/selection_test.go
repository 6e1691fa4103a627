package collect

import (
	"slices"
	"strings"
	"testing"
)

func TestParseSelection(t *testing.T) {
	for text, want := range map[string]struct{ major, minor []int }{ // of 0 … 4
		"f":           {[]int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3, 4}},
		"g":           {[]int{0, 1, 2, 3, 4}, nil},
		"i":           {nil, []int{0, 1, 2, 3, 4}},
		"g:0,2-3":     {[]int{0, 2, 3}, nil},
		"i:0,2-4":     {nil, []int{0, 2, 3, 4}},
		"g+i":         {[]int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3, 4}},
		"i:1+g:4":     {[]int{4}, []int{1}},
		"g:0-0,0,0":   {[]int{0}, nil},
		"g:1000,2000": {nil, nil},
	} {
		s, err := ParseSelection(text)
		if err != nil || s.Flexible() != (text == "f") {
			t.Errorf("%s: %v, %+v", text, err, s)
		}
		var major, minor []int
		for id := range 5 {
			if s.Major(id) {
				major = append(major, id)
			}
			if s.Minor(id) {
				minor = append(minor, id)
			}
		}
		if !slices.Equal(major, want.major) || !slices.Equal(minor, want.minor) {
			t.Errorf("%s: %v and %v, want %v and %v", text, major, minor, want.major, want.minor)
		}
	}
}

func TestSelectionMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                `"" is not f, g or i`,
		"x":               `"x" is not f, g or i`,
		"f:0":             "f takes no ids",
		"f+g":             "f takes no ids",
		"g+f":             "f takes no ids",
		"g+g:0":           "g is given twice",
		"g:":              `"" is neither an id nor a range`,
		"g:0,":            `"" is neither`,
		"g:-1":            `"-1" is neither`,
		"g:1-":            `"1-" is neither`,
		"g:3-2":           "the range 3-2 ends before it begins",
		"g:0:1":           `"0:1" is neither`,
		"g:1-2-3":         `"1-2-3" is neither`,
		"g:0-99999999":    "more than 1024 ids",
		"i:0-1000,0-1000": "more than 1024 ids",
		"g,1":             `"g,1" is not f, g or i`,
	} {
		if _, err := ParseSelection(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// A device that is requested by number is reported while it is absent, and not once it is there.
func TestMissingDevices(t *testing.T) {
	s, err := ParseSelection("g:0,7+i:3,4")
	if err != nil {
		t.Fatal(err)
	}
	r := &Reading{Entities: []Entity{{Kind: GPU, GPU: 0}, {Kind: Instance, GPU: 0, DCGMID: 3}}}
	if got := s.Missing(r); !slices.Equal(got, []string{"g:7", "i:4"}) {
		t.Errorf("missing %q", got)
	}
	r.Entities = append(r.Entities, Entity{Kind: GPU, GPU: 7}, Entity{Kind: Instance, GPU: 7, DCGMID: 4})
	if got := s.Missing(r); got != nil {
		t.Errorf("missing %q", got)
	}
}

func FuzzParseSelection(f *testing.F) {
	for _, text := range []string{"f", "g:0,2-4+i", "i:1-1", "g+", "g:0-1023"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSelection(text)
		if err != nil {
			return
		}
		if len(s.major) > maxSelected || len(s.minor) > maxSelected {
			t.Fatalf("%q: %+v", text, s)
		}
		for _, id := range s.major {
			if id < 0 || !s.Major(id) {
				t.Fatalf("%q: GPU %d is not selected", text, id)
			}
		}
	})
}
