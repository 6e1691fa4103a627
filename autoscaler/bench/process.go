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

// memory is the resident set of a process now and its peak, in bytes; 0 where the
// kernel does not say.
func memory(pid int) (now, peak int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			now = kib << 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			peak = kib << 10
		}
	}
	return now, peak
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
