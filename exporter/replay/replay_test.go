package replay

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

const small1 = `
GPU 0 uuid=GPU-a model="A B" mig=true slices=7 driver=580 bus=0000:01 minor=3
instance 0/1 profile=3g.40gb start=0 size=4 compute=3 uuid=MIG-1
0 DCGM_FI_DEV_POWER_USAGE=100 54="GPU-a" # a comment
0/1 1001=0.5 252=10
at 10s
0/1 1001=0.75 252=-
at 20s
gone 0/1
instance 0/2 profile=1g.10gb
end 30s
`

// playing returns a source and its clock's hands.
func playing(t *testing.T, text string, o Options) (*Source, *time.Time) {
	t.Helper()
	recording, err := Parse("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	o.Now = func() time.Time { return now }
	return NewSource(recording, o), &now
}

func read(t *testing.T, s *Source) *collect.Reading {
	t.Helper()
	r, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPlay(t *testing.T) {
	s, now := playing(t, small1, Options{})
	first := read(t, s)
	if len(first.Entities) != 2 {
		t.Fatalf("%d entities", len(first.Entities))
	}
	i := first.Entities[1]
	if i.Kind != collect.Instance || i.UUID != "GPU-a" || i.Model != "A B" || i.Minor != 3 || !i.MIG || i.GPUMaxCompute != 7 ||
		i.InstanceID != 1 || i.Start != 0 || i.Size != 4 || i.ComputeSlices != 3 || i.InstanceUUID != "MIG-1" {
		t.Errorf("instance %+v", i)
	}
	if v, ok := first.Entities[0].Value(54); !ok || !v.IsText || v.Text != "GPU-a" {
		t.Errorf("text value %+v", v)
	}
	*now = now.Add(15 * time.Second)
	second := read(t, s)
	if v, _ := second.Entities[1].Value(1001); v.Number != 0.75 || !v.Time.Equal(*now) {
		t.Errorf("value at 15s: %+v", v)
	}
	if _, ok := second.Entities[1].Value(252); ok {
		t.Error("a value taken away is still there")
	}
	if v, _ := first.Entities[1].Value(1001); v.Number != 0.5 {
		t.Error("an earlier Reading changed")
	}
	*now = now.Add(10 * time.Second)
	if third := read(t, s); third.Entities[1].InstanceID != 2 || third.Entities[1].Start != -1 {
		t.Errorf("after the repartition: %+v", third.Entities[1])
	}
	*now = now.Add(10 * time.Second) // 35 s: the second pass
	if v, ok := read(t, s).Entities[1].Value(1001); !ok || v.Number != 0.5 {
		t.Errorf("second pass begins with %+v", v)
	}
}

func TestWatchLimitsFields(t *testing.T) {
	s, _ := playing(t, small1, Options{})
	if err := s.Watch([]uint16{1001}, time.Second); err != nil {
		t.Fatal(err)
	}
	r := read(t, s)
	if len(r.Entities[0].Values) != 0 || len(r.Entities[1].Values) != 1 {
		t.Errorf("values %+v", r.Entities)
	}
}

func TestForNode(t *testing.T) {
	recording, err := Parse("test", strings.NewReader(small1))
	if err != nil {
		t.Fatal(err)
	}
	uuid := func(r *Recording) string { return read(t, NewSource(r, Options{})).Entities[1].InstanceUUID }
	a, b := recording.ForNode("a"), recording.ForNode("b")
	if uuid(a) == uuid(b) || uuid(a) != uuid(recording.ForNode("a")) || uuid(recording) != "MIG-1" {
		t.Errorf("%s, %s", uuid(a), uuid(b))
	}
}

func TestLength(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"GPU 0":                        0,
		"GPU 0\nat 5s\ngone 0":         10 * time.Second,
		"GPU 0\nat 5s\ngone 0\nend 6s": 6 * time.Second,
	} {
		r, err := Parse("test", strings.NewReader(text))
		if err != nil || r.length != want {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "f:1: the recording has no GPU",
		"GPU":                                    "f:1: want an entity",
		"GPU 0/1":                                "f:1: 0/1: want <n> for a GPU",
		"instance 0/1":                           "f:1: 0/1: its GPU is not there",
		"GPU 0 profile=x":                        "f:1: profile: no such key on this line",
		"GPU 0 minor=x":                          `f:1: minor: "x" is not a value for it`,
		"GPU 0 uuid=a uuid=b":                    "f:1: uuid: want key=value, each key once",
		"GPU 0 model=\"open":                     "f:1: model=: the double quote does not close",
		"GPU 0\n0":                               "f:2: 0: no values given",
		"GPU 0\n0 DCGM_FI_NONE=1":                "f:2: DCGM_FI_NONE: no DCGM field has this name or number",
		"GPU 0\n0 203=x":                         `f:2: 203: "x" is not a number`,
		"GPU 0\n0 203=NaN":                       `f:2: 203: "NaN" is not a number`,
		"GPU 0\n0 203=1 203=2":                   "f:2: 203: given twice",
		"GPU 0\n1 203=1":                         "f:2: 1: there is no such GPU",
		"GPU 0\nwhat 203=1":                      "f:2: what: want GPU, instance",
		"GPU 0\nat x":                            "f:2: x: want a duration",
		"GPU 0\nat 5s\nat 5s":                    "f:3: 5s: want an offset after 5s",
		"GPU 0\nat 5s\nend 4s":                   "f:3: 4s: want an end after",
		"GPU 0\nend 5s\n0 203=1":                 "f:3: there is nothing after end",
		"GPU 0\ngone 0\n0 203=1":                 "f:3: 0: there is no such GPU",
		"GPU 0\ninstance 0/1\ngone 0\n0/1 203=1": "f:4: 0/1: there is no such GPU",
	} {
		_, err := Parse("f", strings.NewReader(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(small1)
	f.Add("GPU 0\n0 203=-1e9\nat 1ns\nend 2ns")
	files, err := filepath.Glob("../testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		recording, err := Parse("f", strings.NewReader(text))
		if err != nil {
			var mistake *Error
			if errors.As(err, &mistake) && (mistake.Line < 1 || mistake.Reason == "") {
				t.Fatalf("mistake without a place: %+v", mistake)
			}
			return
		}
		now := time.Unix(0, 0)
		s := NewSource(recording, Options{Now: func() time.Time { return now }})
		for range 5 {
			r, err := s.Read()
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range r.Entities {
				if e.Kind == collect.Instance && (i == 0 || r.Entities[i-1].GPU != e.GPU) {
					t.Fatalf("instance %d/%d before its GPU", e.GPU, e.InstanceID)
				}
			}
			now = now.Add(max(recording.length/3, 1))
		}
	})
}
