package fakedcgm

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func example() State {
	return State{
		DriverVersion: "580.65.06", HangFor: 1500 * time.Millisecond, Dead: true,
		Cards: []Card{{
			Index: 1, Minor: 3, UUID: "GPU-1", Product: "NVIDIA H100 80GB HBM3", PCIBusID: "00000000:07:00.0",
			MemoryMiB: 81559, MIG: true, Lost: true, Fields: map[uint16]float64{203: 1.5, 155: 0.1 + 0.2},
			XIDs: []XID{{Code: 79, At: time.UnixMicro(1790000000123456)}},
			Instances: []Instance{{
				ID: 2, EntityID: 9, Profile: "3g.40gb", ComputeSlices: 3, Start: 4, Size: 4, UUID: "MIG-1",
				Fields: map[uint16]float64{1001: 1e-9},
			}, {ID: 3, EntityID: 10, Start: -1}},
		}, {
			Odd: Odd{155: "inf", 203: "status:-18", 54: "text:N/A maybe", 1: "int32_not_found"}, Frozen: true,
			Profiling: []uint16{1001, 1040},
		}},
		Switches:  []Switch{{ID: 3, Fields: Fields{858: 40}}},
		Links:     []Link{{Of: OfGPU, ID: 1, Index: 17, Up: true, Odd: Odd{580: "blank"}}, {Of: OfSwitch, ID: 3, Index: 255}},
		CPUs:      []CPU{{ID: 1, First: 72, Last: 143, Fields: Fields{1110: 50}, Cores: []Core{{ID: 72, Fields: Fields{1100: 0.5}}}}},
		Incidents: []Incident{{GPU: 1, System: 16, Result: 10, Code: 5}},
		Peers:     []Peer{{From: 1, To: 0, Status: 3}},
		NoNVML:    true,
		Fail:      map[string]int{"dcgmHealthCheck": -33, "dcgmGetCpuHierarchy": -6},
	}
}

func TestStateRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, want := range []State{{}, example()} {
		if err := want.Write(path); err != nil {
			t.Fatal(err)
		}
		got, err := Read(path)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
		}
	}
}

func TestUnsupportedRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	s := State{Cards: []Card{{Fields: map[uint16]float64{203: math.NaN()}}}}
	if err := s.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil || !math.IsNaN(got.Cards[0].Fields[203]) {
		t.Errorf("%v %+v", err, got)
	}
}

func TestWriteRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for name, s := range map[string]State{
		"quote":    {Cards: []Card{{Product: `NVIDIA "H100"`}}},
		"newline":  {Cards: []Card{{Product: "H100\nfield 203 1"}}},
		"long":     {Cards: []Card{{Product: strings.Repeat("x", 96)}}},
		"infinite": {Cards: []Card{{Fields: map[uint16]float64{1: math.Inf(1)}}}},
		"cards":    {Cards: make([]Card, 33)},
		"parts":    {Cards: []Card{{Instances: make([]Instance, 9)}}},
		"xids":     {Cards: []Card{{XIDs: make([]XID, 65)}}},
		"odd":      {Cards: []Card{{Odd: Odd{1: "odd"}}}},
		"both":     {Cards: []Card{{Odd: Odd{1: "nan"}, Fields: Fields{1: 1}}}},
		"things":   {Switches: make([]Switch, 257)},
		"cores":    {CPUs: []CPU{{Last: 1024}}},
		"link":     {Links: []Link{{Of: OfGPU, Index: 18}}},
	} {
		if err := s.Write(path); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("files left behind: %v", left)
	}
}

// badStates name the line that is wrong. The C reader is tried on the same ones.
var badStates = map[string]int{
	"":                                                         1,
	"fakedcgm 2\nend\n":                                        1,
	"fakedcgm 1\n":                                             3,
	"fakedcgm 1\nnonsense\nend\n":                              2,
	"fakedcgm 1\ndead now\nend\n":                              2,
	"fakedcgm 1\nhang ms\nend\n":                               2,
	"fakedcgm 1\nhang ms x\nend\n":                             2,
	"fakedcgm 1\nhang s 1\nend\n":                              2,
	"fakedcgm 1\nfield 1 2\nend\n":                             2,
	"fakedcgm 1\n\n# x\nx\nend\n":                              4,
	"fakedcgm 1\ndriver version \"":                            2,
	goodCard + "field 203\nend\n":                              3,
	goodCard + "field 70000 1\nend":                            3,
	goodCard + "field 203 fast\nend":                           3,
	goodCard + "field 203 -nan\nend":                           3,
	goodCard + "field 203 -inf\nend":                           3,
	goodCard + "xid code 1\nend":                               3,
	goodCard + "xid code 1 code 2\nend":                        3,
	goodCard + "xid code 5000000000 at 1\nend":                 3,
	goodCard + "xid code 1 at 1 for 2\nend":                    3,
	strings.Replace(goodCard, "uuid a", `uuid "a"b`, 1):        2,
	strings.Replace(goodCard, "uuid a", `uuid a"b`, 1):         2,
	goodCard + "instance id 1\nend\n":                          3,
	"fakedcgm 1\nfrozen\nend":                                  2,
	"fakedcgm 1\nprofiling 1001\nend":                          2,
	"fakedcgm 1\ncore id 1\nend":                               2,
	"fakedcgm 1\ncpu id 0 first 5 last 4\nend":                 2,
	"fakedcgm 1\ncpu id 0 first 0 last 1024\nend":              2,
	"fakedcgm 1\nlink of 2 id 0 index 0 up 1\nend":             2,
	"fakedcgm 1\nlink of 1 id 0 index 18 up 1\nend":            2,
	"fakedcgm 1\nswitch id -1\nend":                            2,
	"fakedcgm 1\nswitch id 1 up 1\nend":                        2,
	"fakedcgm 1\nhealth gpu 0\nend":                            2,
	"fakedcgm 1\nfail call x\nend":                             2,
	"fakedcgm 1\np2p from 0 to 1\nend":                         2,
	goodCard + "field 203 status:0\nend":                       3,
	goodCard + "field 203 status:x\nend":                       3,
	goodCard + "field 203 blanks\nend":                         3,
	goodCard + "profiling\nend":                                3,
	goodCard + "profiling x\nend":                              3,
	goodCard + "frozen 1\nend":                                 3,
	goodCard + strings.Repeat("xid code 1 at 1\n", 65) + "end": 67,
}

const goodCard = "fakedcgm 1\ncard index 0 minor 0 memory 1 mig 0 lost 0 uuid a pci b product \"c d\"\n"

const everything = goodCard + `field 155 nan
field 155 blank
frozen
profiling 1001 1002
switch id 1
field 858 40
link of 1 id 0 index 3 up 1
cpu id 0 first 0 last 71
core id 3
field 1100 status:-14
field 1140 "text:Grace C1"
health gpu 0 system 1 result 10 code 3
p2p from 0 to 1 status 5
fail call dcgmHealthCheck status -33
nonvml
end`

func TestBadStates(t *testing.T) {
	for text, line := range badStates {
		_, err := decode(text)
		if err == nil {
			t.Errorf("accepted:\n%s", text)
			continue
		}
		if want := "line " + string(rune('0'+line)); line < 10 && !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "cut off") {
			t.Errorf("error %q does not name %s of\n%s", err, want, text)
		}
	}
	if _, err := decode(goodCard + "field 203 5\nend\nanything"); err != nil {
		t.Errorf("a good state: %v", err)
	}
}

// A reader never sees half of a state.
func TestWriteIsAtomic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	small, large := State{}, State{Cards: make([]Card, 32)}
	if err := small.Write(path); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	for _, s := range []State{small, large} {
		done.Go(func() {
			for range 200 {
				if err := s.Write(path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 400 {
		if s, err := Read(path); err != nil || len(s.Cards) != 0 && len(s.Cards) != 32 {
			t.Fatalf("%d cards, %v", len(s.Cards), err)
		}
	}
	done.Wait()
}

// What decodes also encodes, and to the same state.
func FuzzDecode(f *testing.F) {
	text, err := example().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(goodCard + "field 203 unsupported\nend\n")
	for bad := range badStates {
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := decode(text)
		if err != nil {
			return
		}
		again, err := s.encode()
		if err != nil {
			t.Fatalf("decoded, but not encoded: %v", err)
		}
		back, err := decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if third, _ := back.encode(); third != again {
			t.Errorf("not the same:\n%s\n%s", again, third)
		}
	})
}
