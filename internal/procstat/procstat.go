// Package procstat reads Linux' statistics of a process and of the machine, for
// benchmarks. Missing figures are 0: no decision depends on them.
package procstat

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
)

// CPU returns the CPU time a process has used so far, in steps of 10 ms; 0 if
// unknown.
func CPU(pid int) time.Duration {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	s, _ := p.Stat()
	return time.Duration(s.CPUTime() * float64(time.Second))
}

// Resident is the resident memory of a process, in bytes.
type Resident struct {
	Now, Peak int64
	// File is the part of Now in pages of the program's own file: the kernel can
	// drop them, and shares them among the processes of the program.
	File int64
}

// Memory returns a process' resident memory; all 0 if unknown.
func Memory(pid int) Resident {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return Resident{}
	}
	s, _ := p.NewStatus()
	return Resident{Now: int64(s.VmRSS), Peak: int64(s.VmHWM), File: int64(s.RssFile)}
}

// ForgetPeak resets the peak, if the kernel permits.
func ForgetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// Load returns the machine's load average over the last minute, "?" if unknown.
func Load() string {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return "?"
	}
	load, err := fs.LoadAvg()
	if err != nil {
		return "?"
	}
	return fmt.Sprintf("%.2f", load.Load1)
}
