package procstat

import (
	"os"
	"testing"
	"time"
)

func TestProcessorTime(t *testing.T) {
	for stat, want := range map[string]time.Duration{"1 (a b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0": 3 * time.Second, "": 0, "1 (a) S 1": 0} {
		if got := cpuOf([]byte(stat)); got != want {
			t.Errorf("%q: %s, want %s", stat, got, want)
		}
	}
}

func TestResident(t *testing.T) {
	want := Resident{Now: 3 << 20, Peak: 4 << 20, File: 1 << 20}
	if got := residentOf("VmHWM:\t    4096 kB\nVmRSS:\t    3072 kB\nRssAnon:\t    2048 kB\nRssFile:\t    1024 kB\n"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
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
