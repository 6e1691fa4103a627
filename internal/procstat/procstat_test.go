package procstat

import (
	"os"
	"testing"
	"time"
)

func TestOwnProcess(t *testing.T) {
	pid := os.Getpid()
	for CPU(pid) < 20*time.Millisecond { // this loop uses processor time
	}
	if m := Memory(pid); m.Now < 1<<20 || m.Peak < m.Now/2 || m.File <= 0 {
		t.Errorf("%+v", m)
	}
	if Load() == "?" {
		t.Error("the machine's load is not known")
	}
}

func TestNoProcess(t *testing.T) {
	if cpu, m := CPU(-1), Memory(-1); cpu != 0 || m != (Resident{}) {
		t.Errorf("%s, %+v", cpu, m)
	}
}
