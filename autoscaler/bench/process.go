package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"
)

// cpuTime is what a process has used of the processor so far, in steps of 10 ms; 0
// where the kernel does not say.
func cpuTime(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return cpuOf(text)
}

// cpuOf reads /proc/PID/stat. The name in parentheses may hold anything; user and
// system time, in hundredths of a second, are the 12th and 13th field after it.
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

// resident is what a process has in memory, in bytes; 0 where the kernel does not say.
type resident struct {
	now, peak int64
	// file is what of now are pages of the program's own file: the kernel can drop
	// them and has them once for all who run it.
	file int64
}

func memory(pid int) resident {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return resident{}
	}
	return residentOf(string(text))
}

// residentOf reads /proc/PID/status.
func residentOf(status string) (r resident) {
	for line := range strings.Lines(status) {
		for _, field := range []struct {
			format string
			to     *int64
		}{{"VmRSS: %d kB", &r.now}, {"VmHWM: %d kB", &r.peak}, {"RssFile: %d kB", &r.file}} {
			var kib int64
			if n, _ := fmt.Sscanf(line, field.format, &kib); n == 1 && kib >= 0 && kib < 1<<50 {
				*field.to = kib << 10
			}
		}
	}
	return r
}

// text says how much of it is the program's file.
func (r resident) text() string {
	return fmt.Sprintf("%.0f MiB of it pages of the program's file", float64(r.file)/(1<<20))
}

// forgetPeak has the kernel begin the peak anew, where it lets us.
func forgetPeak(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// load is the machine's load average over the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
