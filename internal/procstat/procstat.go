// Package procstat reads Linux' statistics of a process and of the machine, for
// benchmarks. Missing figures are 0: no decision depends on them.
package procstat

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
)

// CPU returns the CPU time a process has used so far, in steps of 10 ms; 0 if
// unknown.
func CPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return cpuOf(text)
}

// cpuOf reads /proc/PID/stat. The name in parentheses may contain any character;
// user and system time, in hundredths of a second, are the 12th and 13th field
// after it.
func cpuOf(stat []byte) time.Duration {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	var user, system int64
	_, _ = fmt.Sscan(string(fields[11]), &user)
	_, _ = fmt.Sscan(string(fields[12]), &system)
	return time.Duration(max(user+system, 0)) * 10 * time.Millisecond
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
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Resident{}
	}
	return residentOf(string(text))
}

// residentOf reads /proc/PID/status.
func residentOf(status string) (r Resident) {
	for line := range strings.Lines(status) {
		for _, field := range []struct {
			format string
			to     *int64
		}{{"VmRSS: %d kB", &r.Now}, {"VmHWM: %d kB", &r.Peak}, {"RssFile: %d kB", &r.File}} {
			var kib int64
			if n, _ := fmt.Sscanf(line, field.format, &kib); n == 1 && kib >= 0 && kib < 1<<50 {
				*field.to = kib << 10
			}
		}
	}
	return r
}

// ForgetPeak resets the peak, if the kernel permits.
func ForgetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// Load returns the machine's load average over the last minute, "?" if unknown.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
