package procstat

import (
	"os"
	"testing"
	"time"
)

func FuzzProcessorTime(f *testing.F) {
	f.Add("1 (a b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0")
	f.Add("")
	f.Fuzz(func(t *testing.T, stat string) {
		if d := cpuOf([]byte(stat)); d < 0 {
			t.Errorf("%s", d)
		}
	})
}

func TestProcessorTime(t *testing.T) {
	if got := cpuOf([]byte("1 (a b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0")); got != 3*time.Second {
		t.Errorf("%s, want 3s", got)
	}
}

func TestResident(t *testing.T) {
	want := Resident{Now: 3 << 20, Peak: 4 << 20, File: 1 << 20}
	if got := residentOf("VmHWM:\t    4096 kB\nVmRSS:\t    3072 kB\nRssAnon:\t    2048 kB\nRssFile:\t    1024 kB\n"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func FuzzResident(f *testing.F) {
	f.Add("VmRSS:\t    3072 kB\n")
	f.Add("VmRSS: -1 kB\nVmHWM: 99999999999999999 kB")
	f.Fuzz(func(t *testing.T, status string) {
		if r := residentOf(status); r.Now < 0 || r.Peak < 0 || r.File < 0 {
			t.Errorf("%+v", r)
		}
	})
}

// A process that runs has memory, and one that is not there has nothing.
func TestThisProcess(t *testing.T) {
	if r := Memory(os.Getpid()); r.Now < 1<<20 || r.Peak < r.Now/2 {
		t.Errorf("this process has %+v", r)
	}
	if r, used := Memory(-1), CPU(-1); r != (Resident{}) || used != 0 {
		t.Errorf("no process has %+v and used %s", r, used)
	}
}
